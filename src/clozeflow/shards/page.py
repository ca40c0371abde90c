"""`report.html` of shards: how long the documents are, and what the rows hold."""

from __future__ import annotations

from collections.abc import Mapping

from clozeflow import charts
from clozeflow.artifacts import Split
from clozeflow.charts import Bin
from clozeflow.report import Report
from clozeflow.shards.config import ShardConfig
from clozeflow.shards.statistics import Statistics, bin_bounds

_MOST_SOURCES = 20


def render(
    config: ShardConfig,
    splits: Mapping[str, Split],
    statistics: Mapping[str, Statistics],
    *,
    method: str,
) -> str:
    """The report as HTML.

    Args:
        config: The stage's settings.
        splits: What was written.
        statistics: What was counted in each split.
        method: How documents were encoded.
    """
    total = Statistics.total(split.to_dict() for split in statistics.values())
    page = Report("Shards")
    page.text(
        f"Examples of {config.seq_len:,} tokens, packing {str(config.packing)!r}. Encoded by "
        f"{method}; the ids of {total.num_compared:,} documents, chosen by the seed, were compared "
        "with those that `tokenizers` gives, and are equal."
    )
    _splits(page, config, splits, statistics)
    page.heading("What the rows hold")
    page.drawing(
        _contents_chart(config, splits, statistics),
        "Places in rows: tokens of documents, special tokens around them, padding.",
    )
    page.heading("Tokens per document")
    page.drawing(
        _lengths_chart(config, total),
        "Documents by their number of tokens; the line is the length of an example.",
    )
    page.heading("Tokens per source")
    largest = total.tokens_by_source.most_common(_MOST_SOURCES)
    page.drawing(charts.named_bars(largest), "Tokens of documents, the largest sources first.")
    return page.to_html()


def _splits(
    page: Report,
    config: ShardConfig,
    splits: Mapping[str, Split],
    statistics: Mapping[str, Statistics],
) -> None:
    rows = []
    for name, counted in statistics.items():
        counts = splits[name].counts
        places = counts.get("num_examples", 0) * config.seq_len
        rows.append(
            (
                name,
                len(splits[name].files),
                counts.get("num_examples", 0),
                counts.get("num_tokens", 0),
                f"{_ratio(places - counts.get('num_tokens', 0), places):.4%}",
                counted.num_documents,
                _ratio(counted.num_document_tokens, counted.num_documents),
                _ratio(counted.num_document_tokens, counted.text_bytes),
                f"{_ratio(counted.num_unknown_tokens, counted.num_document_tokens):.4%}",
            )
        )
    header = "split, files, examples, tokens, padding, documents, tokens per document"
    page.table([*header.split(", "), "tokens per byte", "unknown tokens"], rows)


def _contents_chart(
    config: ShardConfig, splits: Mapping[str, Split], statistics: Mapping[str, Statistics]
) -> str:
    rows = {}
    for name, counted in statistics.items():
        counts = splits[name].counts
        places = counts.get("num_examples", 0) * config.seq_len
        num_tokens = counts.get("num_tokens", 0)
        numbers = (
            counted.num_document_tokens,
            num_tokens - counted.num_document_tokens,
            places - num_tokens,
        )
        rows[name] = [_ratio(number, places) for number in numbers]
    parts = ("tokens of documents", "special tokens", "padding")
    return charts.stacked_bars(rows, parts=parts, axis="share of all places", whole=1)


def _lengths_chart(config: ShardConfig, total: Statistics) -> str:
    bins = []
    for number in sorted(map(int, total.documents_by_length)):
        low, high = bin_bounds(number)
        bins.append(Bin(low=low, high=high, count=total.documents_by_length[str(number)]))
    mark_name = f"an example: {config.seq_len:,}"
    return charts.histogram(
        bins, axis="tokens in a document", mark=config.seq_len, mark_name=mark_name
    )


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
