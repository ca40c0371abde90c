"""`report.html` of shards: how long the documents are, and what the rows hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from clozeflow.artifacts import Split
from clozeflow.report import Report, new_figure
from clozeflow.shards.config import ShardConfig
from clozeflow.shards.statistics import Statistics, bin_bounds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    page.figure(
        _contents_figure(config, splits, statistics),
        "Places in rows: tokens of documents, special tokens around them, padding.",
    )
    page.heading("Tokens per document")
    page.figure(
        _lengths_figure(config, total),
        "Documents by their number of tokens; the line is the length of an example.",
    )
    page.heading("Tokens per source")
    page.figure(_sources_figure(total), "Tokens of documents, the largest sources first.")
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


def _contents_figure(
    config: ShardConfig, splits: Mapping[str, Split], statistics: Mapping[str, Statistics]
) -> Figure:
    figure = new_figure(height=0.8 + 0.5 * len(splits))
    axes = figure.subplots()
    for name, counted in statistics.items():
        counts = splits[name].counts
        places = counts.get("num_examples", 0) * config.seq_len
        num_tokens = counts.get("num_tokens", 0)
        left = 0.0
        for label, number, color in (
            ("document tokens", counted.num_document_tokens, "C0"),
            ("special tokens", num_tokens - counted.num_document_tokens, "C1"),
            ("padding", places - num_tokens, "C3"),
        ):
            share = _ratio(number, places)
            text = label if name == next(iter(statistics)) else None
            axes.barh(name, share, left=left, color=color, label=text)
            left += share
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.set_xlabel("share of all places")
    figure.legend(loc="outside upper right", ncols=3, frameon=False)
    return figure


def _lengths_figure(config: ShardConfig, total: Statistics) -> Figure:
    figure = new_figure()
    axes = figure.subplots()
    bins = sorted(map(int, total.documents_by_length))
    bounds = [bin_bounds(number) for number in bins]
    axes.bar(
        [low for low, _ in bounds],
        [total.documents_by_length[str(number)] for number in bins],
        width=[high - low for low, high in bounds],
        align="edge",
        edgecolor="white",
        linewidth=0.5,
    )
    axes.axvline(config.seq_len, color="C3", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("tokens in a document")
    axes.set_ylabel("documents")
    return figure


def _sources_figure(total: Statistics) -> Figure:
    largest = total.tokens_by_source.most_common(_MOST_SOURCES)
    figure = new_figure(height=0.8 + 0.3 * max(1, len(largest)))
    axes = figure.subplots()
    for name, num_tokens in largest:
        bar = axes.barh(_drawable(name), num_tokens, color="C0")
        axes.bar_label(bar, [f" {num_tokens:,}"])
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("tokens of documents")
    return figure


def _drawable(name: str) -> str:
    # A dollar sign would begin a formula.
    return name[:60].replace("$", r"\$")


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
