"""`--require`: thresholds such as `masked_accuracy>=0.35`, for every stage that has them."""

from __future__ import annotations

import dataclasses
import difflib
import operator
import re
from collections.abc import Callable, Mapping, Sequence

from clozeflow.errors import UserError

FLAG = "--require"
_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_NAME = r"[A-Za-z_]\w*"
_SHAPE = re.compile(
    rf"\s*(?P<figure>{_NAME})\s*(?P<comparison>>=|<=|>|<)\s*(?P<limit>{_NUMBER}|{_NAME})\s*"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Threshold:
    """A figure compared with a number, or with something that has a name."""

    figure: str
    comparison: str
    limit: float | str
    """A number, or the name of another figure; what names may stand here is the stage's to say."""
    text: str
    """As it was written."""

    def holds(self, value: float, limit: float) -> bool:
        """Whether the figure's value meets the limit's."""
        return _OPERATORS[self.comparison](value, limit)


def parse_thresholds(texts: Sequence[str], *, example: str) -> list[Threshold]:
    """Reads thresholds.

    Args:
        texts: As they were written.
        example: A right one, for the message.

    Raises:
        UserError: One is none.
    """
    return [_parse(text, example) for text in texts]


def check_known(name: str, known: Sequence[str], *, text: str) -> None:
    """Refuses a figure that is not measured.

    Raises:
        UserError: With the one that was probably meant, and those that are.
    """
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {close[0]}? " if close else ""
        raise UserError(
            FLAG,
            f"names a figure that is not measured, in {text!r}",
            got=name,
            fix=f"{hint}Measured are: {', '.join(known)}.",
        )


def _parse(text: str, example: str) -> Threshold:
    match = _SHAPE.fullmatch(text)
    if not match:
        raise UserError(
            FLAG,
            "is no threshold",
            got=repr(text),
            expected="FIGURE>=NUMBER, with >=, <=, > or <",
            fix=f"Write it like {example}.",
        )
    limit = match["limit"]
    return Threshold(
        figure=match["figure"],
        comparison=match["comparison"],
        limit=float(limit) if re.fullmatch(_NUMBER, limit) else limit,
        text=text.strip(),
    )
