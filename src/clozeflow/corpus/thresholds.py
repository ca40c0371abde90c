"""`--require`: thresholds that a corpus must meet, or the stage fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clozeflow import thresholds
from clozeflow.errors import UserError
from clozeflow.thresholds import Threshold

EXAMPLE = "num_documents>=1000"
FIGURES = (
    *("num_documents", "num_words", "text_bytes", "num_characters"),
    *("num_read", "num_blank", "num_dropped", "num_duplicates", "num_near_duplicates"),
    *("num_contaminated", "num_bad_bytes", "num_controls"),
    *("dropped_share", "duplicate_share", "near_duplicate_share", "letter_share"),
    "mean_document_bytes",
)
"""The properties in `statistics.json`: what a threshold may be set on."""


def parse_thresholds(texts: Sequence[str]) -> list[tuple[Threshold, float]]:
    """Reads thresholds such as `num_documents>=1000`, each with its number.

    Raises:
        UserError: One is none, names a figure that is not measured, or compares with something
            else than a number.
    """
    found = thresholds.parse_thresholds(texts, example=EXAMPLE)
    for threshold in found:
        thresholds.check_known(threshold.figure, FIGURES, text=threshold.text)
    return [(threshold, _number_of(threshold)) for threshold in found]


def check_thresholds(texts: Sequence[str], figures: Mapping[str, float], *, where: str) -> None:
    """Fails the stage where a threshold is not met.

    Args:
        texts: The thresholds.
        figures: What was measured.
        where: The file that holds the figures.

    Raises:
        UserError: One or more thresholds are not met.
    """
    found = parse_thresholds(texts)
    broken = [t for t, limit in found if not t.holds(figures[t.figure], limit)]
    if broken:
        raise UserError(
            where,
            "the corpus does not meet what --require asks",
            got="; ".join(f"{t.figure} {figures[t.figure]:,.6g}" for t in broken),
            expected="; ".join(t.text for t in broken),
            fix="See the report beside it; mend the sources or the filters, or ask for less.",
        )


def _number_of(threshold: Threshold) -> float:
    if isinstance(threshold.limit, float):
        return threshold.limit
    raise UserError(
        thresholds.FLAG,
        "compares a figure of the corpus with something else than a number",
        got=repr(threshold.text),
        fix=f"Write it like {EXAMPLE}.",
    )
