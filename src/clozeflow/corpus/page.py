"""`report.html` of a corpus: what is in it and what was left out, with pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clozeflow.report import Report, new_figure


def make_page(statistics: Mapping[str, Any], sample: Sequence[Mapping[str, str]]) -> str:
    """The report as HTML.

    Args:
        statistics: The content of `statistics.json`.
        sample: Documents to show, with `text`, `source` and `doc_id`.
    """
    page = Report("Corpus")
    page.table(
        ("split", "documents", "words", "bytes"),
        [
            (name, split["num_documents"], split["num_words"], split["text_bytes"])
            for name, split in statistics["splits"].items()
        ],
    )
    page.heading("What was read and what was dropped")
    page.table(("", "number"), [(k.replace("_", " "), v) for k, v in statistics["read"].items()])
    page.heading("Lengths").figure(_lengths(statistics), "Documents by their length in bytes.")
    page.heading("Scripts").table(
        ("script", "characters"), list(statistics["scripts"].items())[:20]
    )
    page.heading("Most frequent words").table(
        ("word", "in a sample"), list(statistics["frequent_words"].items())[:30]
    )
    page.heading("Sources").table(("source", "documents"), list(statistics["sources"].items())[:50])
    page.heading("Ten documents")
    for document in sample:
        page.text(f"{document['source']} · {document['doc_id']}").quote(document["text"])
    return page.to_html()


def _lengths(statistics: Mapping[str, Any]) -> Any:
    figure = new_figure()
    axes = figure.subplots()
    bins = statistics["length_histogram"]
    axes.bar(range(len(bins)), list(bins.values()))
    axes.set_xticks(range(len(bins)), list(bins), rotation=45, ha="right")
    axes.set_ylabel("documents")
    return figure
