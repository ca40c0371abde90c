"""Intervals by bootstrap over rows, in one pass and in memory that does not grow.

Each resample counts every row a number of times drawn from Poisson(1): in the limit that is
drawing rows with replacement (Hanley and MacGibbon, 2006; Chamandy and others, 2012). The number
is a function of (row, resample) alone, so two models are resampled alike and their difference
has an interval of its own: a paired bootstrap. Rows are resampled, and not questions, because
the questions of one text are not independent.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from clozeflow.evaluation.hashing import hash_keys, uniform

NUM_RESAMPLES = 1000
CONFIDENCE = 0.95
_SEED = 0x626F6F74  # apart from the seeds that choose questions
_POISSON_BOUNDS = np.cumsum([math.exp(-1) / math.factorial(k) for k in range(12)])


class Resamples:
    """Sums over resampled rows: float64 [R, F]."""

    def __init__(self, num_columns: int) -> None:
        self.sums = np.zeros((NUM_RESAMPLES, num_columns))

    def add(self, row_numbers: npt.NDArray[np.int64], row_sums: npt.NDArray[np.float64]) -> None:
        """Counts a batch of rows in: their numbers [B] and their sums [B, F]."""
        self.sums += row_weights(row_numbers).T @ row_sums


def row_weights(row_numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """[B, R]: how often each row is in each resample."""
    draws = uniform(hash_keys(_SEED, row_numbers), NUM_RESAMPLES)
    return np.searchsorted(_POISSON_BOUNDS, draws, side="right").astype(np.float64)


def interval(values: npt.NDArray[np.float64]) -> tuple[float, float] | None:
    """The middle 95 % of a figure's values [R], or None where most resamples do not define it."""
    finite = values[np.isfinite(values)]
    if len(finite) < len(values) // 2:
        return None
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(finite, (tail, 1 - tail))
    return float(low), float(high)
