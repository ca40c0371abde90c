"""The tokenizer's `report.html`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from clozeflow.report import Report, new_figure
from clozeflow.tokenizer.config import TokenizerConfig
from clozeflow.tokenizer.quality import Quality

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_CHARS = 300


def render(
    config: TokenizerConfig,
    quality: Quality,
    *,
    split: str,
    facts: Mapping[str, object],
    warnings: Sequence[str],
    pieces: Sequence[str],
    examples: Sequence[Sequence[str]],
) -> str:
    """The report as HTML.

    Args:
        config: The stage's settings.
        quality: The figures on held-out text.
        split: Where that text is from.
        facts: What is known of the vocabulary and of the words it was made from.
        warnings: What the user should know first.
        pieces: Every piece of the vocabulary, by id.
        examples: Texts in pieces.
    """
    page = Report(f"Tokenizer: {config.algorithm}, {len(pieces):,} pieces")
    for warning in warnings:
        page.text(f"Note: {warning}")
    page.heading("Vocabulary").table(("", ""), facts.items())
    page.heading(f"On the {split} split").table(("", ""), _figures(quality))
    if quality.failures:
        page.heading("Texts that decoding does not restore")
        for failure in quality.failures:
            page.quote(f"{failure.text[:_MOST_CHARS]}\n→ {failure.decoded[:_MOST_CHARS]}")
    page.heading("Texts in pieces")
    for example in examples:
        page.quote(" · ".join(example))
    page.heading("Pieces").figure(_lengths(pieces), "Pieces of the vocabulary by length")
    return page.to_html()


def _figures(quality: Quality) -> list[tuple[str, object]]:
    return [
        ("Documents", quality.num_documents),
        ("Bytes", quality.num_bytes),
        ("Tokens", quality.num_tokens),
        ("Tokens per byte", quality.figures["tokens_per_byte"]),
        ("Tokens per word", quality.figures["tokens_per_word"]),
        ("Share of tokens that are unknown", quality.figures["unknown_rate"]),
        ("Share of the vocabulary used", quality.figures["vocabulary_used"]),
        ("Documents that decoding does not restore", quality.num_round_trip_failures),
    ]


def _lengths(pieces: Sequence[str]) -> Figure:
    figure = new_figure()
    axes = figure.add_subplot()
    lengths = [len(piece) for piece in pieces]
    axes.hist(lengths, bins=range(1, max(lengths) + 2), align="left", rwidth=0.9)
    axes.set_xlabel("characters")
    axes.set_ylabel("pieces")
    return figure
