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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Requirement:
    """One threshold: `figure` compared with a number, or with a figure of something else."""

    text: str
    figure: str
    comparison: str
    threshold: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a model is blessed, and why."""

    blessed: bool
    reasons: tuple[str, ...]
    """One sentence a requirement, or the one reason why nothing was asked."""


def parse_requirements(texts: Sequence[str]) -> list[Requirement]:
    """Reads thresholds such as `masked_accuracy>=0.35` or `loss<unigram_loss`.

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
    for name in (figure, threshold):
        if not re.fullmatch(_NUMBER, name) and name not in FIGURES:
            raise UserError(
                "--require",
                f"names a figure that is not measured, in {text!r}",
                got=name,
                expected=", ".join(FIGURES),
                fix="Name one of these.",
            )
    return Requirement(text=text.strip(), figure=figure, comparison=comparison, threshold=threshold)


def judge(requirements: Sequence[Requirement], figures: Mapping[str, float]) -> Verdict:
    """Blesses what passes every threshold; where none is set, nothing."""
    if not requirements:
        return Verdict(blessed=False, reasons=("no threshold was set (--require)",))
    held = [_holds(requirement, figures) for requirement in requirements]
    return Verdict(blessed=all(ok for ok, _ in held), reasons=tuple(reason for _, reason in held))


def _holds(requirement: Requirement, figures: Mapping[str, float]) -> tuple[bool, str]:
    value, limit = figures.get(requirement.figure), _limit(requirement.threshold, figures)
    if value is None or limit is None:
        return False, f"{requirement.text}: not met, a figure of it is not defined here"
    ok = _OPERATORS[requirement.comparison](value, limit)
    return ok, f"{requirement.text}: {'met' if ok else 'not met'} ({value:.6g})"


def _limit(threshold: str, figures: Mapping[str, float]) -> float | None:
    return float(threshold) if re.fullmatch(_NUMBER, threshold) else figures.get(threshold)
