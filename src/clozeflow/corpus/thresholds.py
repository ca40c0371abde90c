"""`--require`: thresholds that a corpus must meet, or the stage fails."""

from __future__ import annotations

import dataclasses
import operator
import re
from collections.abc import Callable, Mapping, Sequence

from clozeflow.errors import UserError

_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_SHAPE = re.compile(r"\s*(?P<figure>\w+)\s*(?P<operator>>=|<=|>|<)\s*(?P<limit>[-+.\deE]+)\s*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Threshold:
    """A figure of the corpus compared with a number."""

    figure: str
    comparison: str
    limit: float

    def holds(self, value: float) -> bool:
        """Whether the figure's value meets it."""
        return _OPERATORS[self.comparison](value, self.limit)

    def __str__(self) -> str:
        return f"{self.figure}{self.comparison}{self.limit:g}"


def parse_thresholds(texts: Sequence[str]) -> list[Threshold]:
    """Reads thresholds such as `num_documents>=1000`.

    Raises:
        UserError: One is none.
    """
    return [_parse(text) for text in texts]


def check_thresholds(texts: Sequence[str], figures: Mapping[str, float], *, where: str) -> None:
    """Fails the stage where a threshold is not met.

    Args:
        texts: The thresholds.
        figures: What was measured.
        where: The file that holds the figures.

    Raises:
        UserError: A figure is not measured, or one or more thresholds are not met.
    """
    thresholds = parse_thresholds(texts)
    for threshold in thresholds:
        if threshold.figure not in figures:
            raise UserError(
                "--require",
                "names no figure of the corpus",
                got=threshold.figure,
                expected=", ".join(sorted(figures)),
                fix="Name one of these.",
            )
    broken = [t for t in thresholds if not t.holds(figures[t.figure])]
    if broken:
        raise UserError(
            where,
            "the corpus does not meet what --require asks",
            got="; ".join(f"{t.figure} {figures[t.figure]:,.6g}" for t in broken),
            expected="; ".join(map(str, broken)),
            fix="See the report beside it; mend the sources or the filters, or ask for less.",
        )


def _parse(text: str) -> Threshold:
    match = _SHAPE.fullmatch(text)
    try:
        assert match
        return Threshold(
            figure=match["figure"], comparison=match["operator"], limit=float(match["limit"])
        )
    except (AssertionError, ValueError):
        raise UserError(
            "--require",
            "is no threshold",
            got=repr(text),
            expected="FIGURE>=NUMBER, with >=, <=, > or <",
            fix="Write it like num_documents>=1000.",
        ) from None
