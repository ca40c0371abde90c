"""How much of a core's memory a step takes."""

from __future__ import annotations

import dataclasses
import enum

from clozeflow.preflight import compiler_log
from clozeflow.preflight.compilation import Compilation, Status

TIGHT_SHARE = 0.9
"""Above it the compiler computes values again instead of keeping them, and little may break it."""
GIB = 2**30
_PLACED_MARGIN = 0.002
"""What is placed leaves out some code: to its end, programs of 7 to 16 GB came to take from 0.9 %
less to 0.14 % more (benchmarks/preflight_table.py), and some then did not fit."""


class Verdict(enum.StrEnum):
    """Whether a step fits."""

    FITS = "fits"
    TIGHT = "tight"
    """It fits, and takes more than nine tenths of the memory."""
    DOES_NOT_FIT = "does_not_fit"
    UNAVAILABLE = "unavailable"
    """Nobody knows."""
    SKIPPED = "skipped"
    """There is nothing to find out."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Memory:
    """Of one core, while the step runs."""

    verdict: Verdict
    needed_bytes: float
    """At the peak; 0 where the compiler does not say."""
    limit_bytes: float
    before_rematerialization_bytes: float = 0.0
    """What it would take if the compiler computed nothing again; 0 where it does not."""

    @property
    def share(self) -> float:
        """Needed of what there is."""
        return self.needed_bytes / self.limit_bytes

    @property
    def does_fit(self) -> bool:
        """Whether it does, tightly or not."""
        return self.verdict in (Verdict.FITS, Verdict.TIGHT)


def memory_of(compilation: Compilation, *, argument_bytes: float, limit_bytes: float) -> Memory:
    """What the compiler's answer says of memory.

    Args:
        compilation: The answer.
        argument_bytes: Of the module: weights, the optimizer's state, a batch.
        limit_bytes: Of a core, where the answer does not say it.
    """
    again = compilation.memory.get("before_rematerialization_bytes", 0.0)
    match compilation.status:
        case Status.UNAVAILABLE:
            return Memory(verdict=Verdict.UNAVAILABLE, needed_bytes=0.0, limit_bytes=limit_bytes)
        case Status.OUT_OF_MEMORY:
            needed, limit = compiler_log.wanted(compilation.message) or (0.0, limit_bytes)
            return Memory(
                verdict=Verdict.DOES_NOT_FIT,
                needed_bytes=needed,
                limit_bytes=limit,
                before_rematerialization_bytes=again,
            )
        case Status.PLACED:
            temporary = compilation.memory.get("temporary_bytes", 0.0)
            needed = (1 + _PLACED_MARGIN) * (argument_bytes + temporary) if temporary else 0.0
            if needed > limit_bytes:
                return Memory(
                    verdict=Verdict.DOES_NOT_FIT,
                    needed_bytes=needed,
                    limit_bytes=limit_bytes,
                    before_rematerialization_bytes=again,
                )
        case Status.COMPILED:
            needed = _needed(compilation)
    tight = needed > TIGHT_SHARE * limit_bytes or again
    return Memory(
        verdict=Verdict.TIGHT if tight else Verdict.FITS,
        needed_bytes=needed,
        limit_bytes=limit_bytes,
        before_rematerialization_bytes=again,
    )


def _needed(compilation: Compilation) -> float:
    """Arguments, results that take no argument's place, temporary values, and code."""
    sizes = compilation.figures
    total = sizes["argument_bytes"] + sizes["output_bytes"] - sizes["alias_bytes"]
    return max(total + sizes["temp_bytes"] + sizes["generated_code_bytes"], sizes["peak_bytes"])
