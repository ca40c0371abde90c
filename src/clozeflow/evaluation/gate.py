"""The gate: thresholds that a model must pass to be blessed."""

from __future__ import annotations

import dataclasses
import operator
import re
from collections.abc import Callable, Mapping, Sequence

from clozeflow.errors import UserError

FIGURES: Mapping[str, str] = {
    "loss": "mean cross-entropy at the masked positions, in nats",
    "perplexity": "e to the loss",
    "masked_accuracy": "share of masked tokens that are the model's first answer",
    "masked_accuracy_top5": "share that are among its first 5",
    "masked_accuracy_top10": "share that are among its first 10",
    "bits_per_byte": "loss in bits per byte of the masked text: comparable across tokenizers",
    "most_frequent_token_accuracy": "what always answering the most frequent token would score",
    "accuracy_ratio": "masked_accuracy over most_frequent_token_accuracy",
    "unigram_loss": "loss of a model that knows only how frequent each token is",
    "unigram_bits_per_byte": "the same in bits per byte",
    "calibration_error": "mean gap between the model's confidence in an answer and its accuracy",
}
"""Every figure and what it is; `require` may name any of them."""

_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_SHAPE = re.compile(rf"\s*([a-z0-9_]+)\s*(>=|<=|>|<)\s*({_NUMBER}|[a-z_]+)\s*")

BASELINE = "baseline"
"""As a threshold: the same figure of the baseline model."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Requirement:
    """One threshold: `figure` compared with a number, another figure, or the baseline's."""

    text: str
    figure: str
    comparison: str
    threshold: str

    @property
    def wants_baseline(self) -> bool:
        """Whether it can be judged only beside a baseline model."""
        return self.threshold == BASELINE


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a model is blessed, and why."""

    blessed: bool
    reasons: tuple[str, ...]
    """One sentence a requirement, or the one reason why nothing was asked."""


def parse_requirements(texts: Sequence[str]) -> list[Requirement]:
    """Reads thresholds: `masked_accuracy>=0.35`, `loss<unigram_loss`, `loss<=baseline`.

    Raises:
        UserError: One is malformed or names a figure that is not measured.
    """
    return [_parse(text) for text in texts]


def _parse(text: str) -> Requirement:
    match = _SHAPE.fullmatch(text)
    if not match:
        raise UserError(
            "--require",
            "is no threshold",
            got=repr(text),
            expected="FIGURE>=NUMBER, with >=, <=, > or <",
            fix='Write it like "masked_accuracy>=0.35".',
        )
    figure, comparison, threshold = match.groups()
    is_other = threshold == BASELINE or re.fullmatch(_NUMBER, threshold)
    for name in (figure,) if is_other else (figure, threshold):
        if name not in FIGURES:
            raise UserError(
                "--require",
                f"names a figure that is not measured, in {text!r}",
                got=name,
                expected=", ".join(FIGURES),
                fix="Name one of these.",
            )
    return Requirement(text=text.strip(), figure=figure, comparison=comparison, threshold=threshold)


def judge(
    requirements: Sequence[Requirement],
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
    requirement: Requirement, figures: Mapping[str, float], baseline: Mapping[str, float]
) -> tuple[bool, str]:
    value, limit = figures.get(requirement.figure), _limit(requirement, figures, baseline)
    if value is None or limit is None:
        return False, f"{requirement.text}: not met, a figure of it is not defined here"
    ok = _OPERATORS[requirement.comparison](value, limit)
    against = "" if re.fullmatch(_NUMBER, requirement.threshold) else f" against {limit:.6g}"
    return ok, f"{requirement.text}: {'met' if ok else 'not met'} ({value:.6g}{against})"


def _limit(
    requirement: Requirement, figures: Mapping[str, float], baseline: Mapping[str, float]
) -> float | None:
    if re.fullmatch(_NUMBER, requirement.threshold):
        return float(requirement.threshold)
    if requirement.wants_baseline:
        return baseline.get(requirement.figure)
    return figures.get(requirement.threshold)
