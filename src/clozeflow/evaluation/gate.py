"""The gate: thresholds that a model must pass to be blessed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from clozeflow.thresholds import Threshold, check_known, parse_thresholds

FIGURES: Mapping[str, str] = {
    "loss": "mean cross-entropy at the masked positions, in nats",
    "perplexity": "e to the loss",
    "masked_accuracy": "share of masked tokens that are the model's first answer",
    "masked_accuracy_top5": "share that are among its first 5",
    "masked_accuracy_top10": "share that are among its first 10",
    "mask_loss": "the loss where the model was shown the mask: no answer is given away there",
    "mask_accuracy": "share right where the model was shown the mask: what copying cannot reach",
    "bits_per_byte": "loss in bits per byte of the masked text: comparable across tokenizers",
    "pseudo_bits_per_byte": "pseudo-log-likelihood per byte, in bits: of a sample of texts each "
    "token is asked for alone, with all others shown",
    "most_frequent_token_accuracy": "what always answering the most frequent token would score",
    "accuracy_ratio": "masked_accuracy over most_frequent_token_accuracy",
    "unigram_loss": "loss of a model that knows only how frequent each token is",
    "unigram_bits_per_byte": "the same in bits per byte",
    "calibration_error": "mean gap between the model's confidence in an answer and its accuracy",
}
"""Every figure and what it is; `require` may name any of them."""

GUESSES = frozenset({"most_frequent_token_accuracy", "unigram_loss", "unigram_bits_per_byte"})
"""The figures that are the same for every model."""

BASELINE = "baseline"
"""As a threshold: the same figure of the baseline model."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a model is blessed, and why."""

    blessed: bool
    reasons: tuple[str, ...]
    """One sentence a requirement, or the one reason why nothing was asked."""


def parse_requirements(texts: Sequence[str]) -> list[Threshold]:
    """Reads thresholds: `masked_accuracy>=0.35`, `loss<unigram_loss`, `loss<=baseline`.

    Raises:
        UserError: One is malformed or names a figure that is not measured.
    """
    found = parse_thresholds(texts, example='"masked_accuracy>=0.35"')
    for threshold in found:
        check_known(threshold.figure, list(FIGURES), text=threshold.text)
        if isinstance(threshold.limit, str) and not wants_baseline(threshold):
            check_known(threshold.limit, list(FIGURES), text=threshold.text)
    return found


def wants_baseline(requirement: Threshold) -> bool:
    """Whether it can be judged only beside a baseline model."""
    return requirement.limit == BASELINE


def judge(
    requirements: Sequence[Threshold],
    figures: Mapping[str, float],
    baseline: Mapping[str, float] | None = None,
) -> Verdict:
    """Blesses what passes every threshold; where none is set, nothing.

    Args:
        requirements: From `parse_requirements`.
        figures: The model's.
        baseline: The baseline model's; needed where a requirement wants it.
    """
    if not requirements:
        return Verdict(blessed=False, reasons=("no threshold was set (--require)",))
    held = [_holds(requirement, figures, baseline or {}) for requirement in requirements]
    return Verdict(blessed=all(ok for ok, _ in held), reasons=tuple(reason for _, reason in held))


def _holds(
    requirement: Threshold, figures: Mapping[str, float], baseline: Mapping[str, float]
) -> tuple[bool, str]:
    value, limit = figures.get(requirement.figure), _limit(requirement, figures, baseline)
    if value is None or limit is None:
        return False, f"{requirement.text}: not met, a figure of it is not defined here"
    ok = requirement.holds(value, limit)
    against = f" against {limit:.6g}" if isinstance(requirement.limit, str) else ""
    return ok, f"{requirement.text}: {'met' if ok else 'not met'} ({value:.6g}{against})"


def _limit(
    requirement: Threshold, figures: Mapping[str, float], baseline: Mapping[str, float]
) -> float | None:
    if isinstance(requirement.limit, float):
        return requirement.limit
    if wants_baseline(requirement):
        return baseline.get(requirement.figure)
    return figures.get(requirement.limit)
