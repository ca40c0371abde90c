"""The tokenizer's `report.html`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from clozeflow.report import Report, new_figure
from clozeflow.tokenizer.quality import Quality

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_CHARS = 300
_MOST_PIECES = 60

_LABELS = {
    "tokens_per_byte": "Tokens per byte",
    "tokens_per_word": "Tokens per word",
    "unknown_rate": "Share of tokens that are unknown",
    "measured_character_coverage": "Share of characters that are known",
    "vocabulary_used": "Share of the vocabulary used",
    "round_trip_failures": "Documents that decoding does not restore",
}


def render(
    title: str,
    *,
    quality: Quality,
    baseline: Quality | None,
    split: str,
    facts: Mapping[str, object],
    warnings: Sequence[str],
    pieces: Sequence[str],
    examples: Iterable[Sequence[str]],
) -> str:
    """The report as HTML.

    Args:
        title: The page's title.
        quality: The figures on held-out text.
        baseline: Those of the tokenizer to compare with, if there is one.
        split: Where that text is from.
        facts: What is known of the vocabulary and of the words it was made from.
        warnings: What the user should know first.
        pieces: V ordinary and special pieces, by id.
        examples: Texts in pieces.
    """
    page = Report(title)
    for warning in warnings:
        page.text(f"Note: {warning}")
    page.heading("Vocabulary").table(("", ""), facts.items())
    page.heading(f"On {quality.num_documents:,} documents of the {split} split")
    _add_figures(page, quality, baseline)
    if quality.unknown_characters:
        unknown = list(itertools.islice(quality.unknown_characters.items(), _MOST_PIECES))
        page.heading("Unknown characters, the most frequent first")
        page.quote("   ".join(f"{c} ({c!a} × {n})" for c, n in unknown))
    if quality.failures:
        page.heading("Texts that decoding does not restore")
        for failure in quality.failures:
            page.quote(f"{failure.text[:_MOST_CHARS]}\n→ {failure.decoded[:_MOST_CHARS]}")
    page.heading("Texts in pieces")
    for example in examples:
        page.quote(" · ".join(example))
    _add_pieces(page, quality.piece_counts, pieces)
    return page.to_html()


def _add_figures(page: Report, quality: Quality, baseline: Quality | None) -> None:
    figures = quality.figures
    if baseline is None:
        page.table(("", ""), [(label, figures[name]) for name, label in _LABELS.items()])
        return
    others = baseline.figures
    page.table(
        ("", "this tokenizer", "baseline"),
        [(label, figures[name], others[name]) for name, label in _LABELS.items()],
    )
    fewer = 1 - figures["tokens_per_byte"] / max(others["tokens_per_byte"], 1e-9)
    page.text(
        f"This tokenizer needs {abs(fewer):.1%} {'fewer' if fewer >= 0 else 'more'} tokens for the "
        f"text than the baseline, whose vocabulary has {len(baseline.piece_counts):,} ids."
    )


def _add_pieces(page: Report, counts_V: np.ndarray, pieces: Sequence[str]) -> None:
    longest = sorted(pieces, key=lambda piece: (-len(piece), piece))[:_MOST_PIECES]
    by_count = np.argsort(-counts_V, kind="stable")
    used = by_count[: np.count_nonzero(counts_V)]
    page.heading("Pieces").figure(_lengths(pieces), "Pieces of the vocabulary by length")
    page.figure(_frequencies(counts_V), "How often the pieces occur in this text, by rank")
    page.heading("The longest").quote("   ".join(longest))
    page.heading("The most frequent").quote("   ".join(pieces[i] for i in used[:_MOST_PIECES]))
    page.heading("The rarest that occur").quote("   ".join(pieces[i] for i in used[-_MOST_PIECES:]))


def _lengths(pieces: Sequence[str]) -> Figure:
    lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
    figure = new_figure()
    axes = figure.add_subplot()
    axes.bar(np.arange(lengths.max() + 1), np.bincount(lengths), width=0.9)
    axes.set_xlabel("characters")
    axes.set_ylabel("pieces")
    return figure


def _frequencies(counts_V: np.ndarray) -> Figure:
    ordered = np.sort(counts_V[counts_V > 0])[::-1]
    # A few hundred ranks, evenly spaced on the logarithmic axis, draw the same line.
    ranks = np.unique(np.geomspace(1, max(len(ordered), 1), 300).astype(np.int64))
    figure = new_figure()
    axes = figure.add_subplot()
    if len(ordered):
        axes.loglog(ranks, ordered[ranks - 1])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.minorticks_off()
    axes.set_xlabel("rank")
    axes.set_ylabel("occurrences")
    return figure
