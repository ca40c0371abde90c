"""`report.html` of a corpus: what is in it and what was left out, with pictures."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clozeflow.report import Report, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NUM_BARS = 20
_NUM_EXAMPLES = 5
_EXCERPT = 1000


def make_page(statistics: Mapping[str, Any], sample: Sequence[Mapping[str, str]]) -> str:
    """The report as HTML.

    Args:
        statistics: The content of `statistics.json`.
        sample: Documents to show, with `text`, `source` and `doc_id`.
    """
    page = Report("Corpus")
    _splits(page, statistics)
    _dropped(page, statistics)
    _contents(page, statistics)
    _sources(page, statistics)
    _duplicates(page, statistics)
    _contamination(page, statistics)
    page.heading("Ten documents of the train split").text("The first in the order of their hashes.")
    for document in sample:
        page.text(f"{document['source']} · {document['doc_id']}")
        page.quote(document["text"][:_EXCERPT])
    return page.to_html()


def _splits(page: Report, statistics: Mapping[str, Any]) -> None:
    page.table(
        ("split", "documents", "words", "bytes", "distinct characters"),
        [(name, *split.values()) for name, split in statistics["splits"].items()],
    )


def _dropped(page: Report, statistics: Mapping[str, Any]) -> None:
    properties = statistics["properties"]
    fates = {
        "kept": properties["num_documents"],
        "blank": properties["num_blank"],
        **{name.replace("_", " "): count for name, count in statistics["dropped"].items()},
    }
    page.heading("What was read, and what became of it")
    page.text(
        f"{properties['num_read']:,} documents were read. {properties['num_controls']:,} control "
        f"characters were removed, {properties['num_bad_bytes']:,} bytes that are no text were "
        "replaced."
    )
    page.table(("documents", "number"), list(fates.items()))
    shown = {name: count for name, count in fates.items() if count}
    _figure(page, _bars(shown, "documents"), "Documents by what became of them.")


def _contents(page: Report, statistics: Mapping[str, Any]) -> None:
    page.heading("What is in it")
    histogram = {f"{int(low):,}": n for low, n in statistics["length_histogram"].items()}
    _figure(
        page,
        _columns(histogram, "bytes, from", "documents"),
        "Documents by length; each bar reaches to twice its lower bound.",
    )
    shown = dict(list(statistics["scripts"].items())[:_NUM_BARS])
    _figure(
        page,
        _bars(shown, "characters (logarithmic)", log=True),
        "Characters by script, others by kind.",
    )
    words = dict(list(statistics["frequent_words"].items())[:_NUM_BARS])
    _figure(page, _bars(words, "occurrences"), "The most frequent words, in a sample.")


def _sources(page: Report, statistics: Mapping[str, Any]) -> None:
    sources = list(statistics["sources"].items())
    page.heading("Sources")
    if statistics["num_sources"] > _NUM_BARS:
        page.text(f"The {_NUM_BARS} with the most documents of {statistics['num_sources']:,}.")
    page.table(
        ("source", "documents read", "documents kept"),
        [(name, n["num_read"], n["num_documents"]) for name, n in sources[:_NUM_BARS]],
    )


def _duplicates(page: Report, statistics: Mapping[str, Any]) -> None:
    properties, near = statistics["properties"], statistics["near_duplicates"]
    page.heading("Duplicates")
    page.text(f"{properties['num_duplicates']:,} copies of other documents were dropped.")
    if statistics["repeated"]:
        page.table(
            ("copies", "text"),
            [(row["copies"], row["text"]) for row in statistics["repeated"][:_NUM_EXAMPLES]],
        )
    what = "were dropped" if "near_duplicate" in statistics["dropped"] else "are in the corpus"
    page.text(f"{properties['num_near_duplicates']:,} near duplicates of other documents {what}.")
    if near["examples"]:
        page.table(
            ("similarity", "document", "is nearly"),
            [(r["similarity"], r["text"], r["near_text"]) for r in near["examples"]],
        )


def _contamination(page: Report, statistics: Mapping[str, Any]) -> None:
    contamination = statistics["contamination"]
    if not contamination["by_splits"]:
        return
    page.heading("Documents that the sources have in two splits")
    page.text("Each is kept once: in test, else in validation.")
    page.table(("splits", "documents"), list(contamination["by_splits"].items()))
    page.table(
        ("splits", "sources", "text"),
        [(row["splits"], row["sources"], row["text"]) for row in contamination["examples"]],
    )


def _figure(page: Report, figure: Figure, caption: str) -> None:
    with warnings.catch_warnings():
        # The text is drawn by the browser, which has fonts for every script.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        page.figure(figure, caption)


def _bars(values: Mapping[str, float], unit: str, *, log: bool = False) -> Figure:
    """Horizontal bars, the first on top."""
    height = 0.8 + 0.26 * len(values)
    figure, axes = _picture(height, left=0.25, bottom=0.65 / height)
    axes.barh(range(len(values)), list(values.values()), log=log)
    axes.set_yticks(range(len(values)), [_plain(name) for name in values])
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(_tick)
    axes.set_xlabel(unit)
    return figure


def _columns(values: Mapping[str, float], label: str, unit: str) -> Figure:
    figure, axes = _picture(3.2, left=0.12, bottom=0.3)
    axes.bar(range(len(values)), list(values.values()))
    axes.set_xticks(range(len(values)), list(values), rotation=45, ha="right")
    axes.yaxis.set_major_formatter(_tick)
    axes.set_xlabel(label)
    axes.set_ylabel(unit)
    return figure


def _picture(height: float, *, left: float, bottom: float) -> tuple[Figure, Axes]:
    """A figure so many inches high; given margins (shares of it) save measuring every label."""
    figure = new_figure(height=height)
    figure.set_layout_engine("none")
    return figure, figure.add_axes((left, bottom, 0.96 - left, 0.96 - bottom))


def _tick(value: float, position: float | None) -> str:
    """A number at an axis, also a logarithmic one, as a number."""
    del position
    return f"{value:,.0f}"


def _plain(name: str) -> str:
    """A label in which nothing is mathematics, and that is not longer than the picture."""
    short = name if len(name) <= 24 else f"{name[:23]}…"
    return short.replace("$", r"\$")
