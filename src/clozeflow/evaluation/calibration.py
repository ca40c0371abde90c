"""Calibration: whether a model that is 80 % sure of its answers is right 80 % of the time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clozeflow.evaluation.scoring import Answers
from clozeflow.evaluation.slicing import group_sums

NUM_BINS = 10


class Calibration:
    """Confidence and rightness of first answers, in bins of equal width."""

    def __init__(self) -> None:
        self._sums = np.zeros((NUM_BINS, 3))  # answers, their confidence, right ones

    def add(self, answers: Answers) -> None:
        """Counts one batch in."""
        confidence = answers.best_probabilities.astype(np.float64)
        bins = np.minimum((confidence * NUM_BINS).astype(np.int64), NUM_BINS - 1)
        is_right = answers.ranks < 1
        values = np.stack([np.ones(len(confidence)), confidence, is_right], axis=1)
        self._sums += group_sums(bins, values, NUM_BINS)

    @property
    def error(self) -> float:
        """The expected calibration error: the mean gap between confidence and accuracy."""
        count, confidence, right = self._sums.T
        return float(np.abs(confidence - right).sum() / max(1.0, count.sum()))

    @property
    def bins(self) -> list[dict[str, Any]]:
        """The bins that have answers in them."""
        return [_bin(index, sums) for index, sums in enumerate(self._sums) if sums[0]]

    @property
    def roc(self) -> list[dict[str, float]]:
        """Whether confidence tells right first answers from wrong ones: a point for each bin.

        Under KFP's names: of the answers that the model is at least `confidenceThreshold` sure of,
        `recall` is their share of all right answers and `falsePositiveRate` that of all wrong ones.
        """
        count, _, right = np.cumsum(self._sums[::-1], axis=0).T
        wrong = count - right
        return [
            {
                "confidenceThreshold": (NUM_BINS - 1 - n) / NUM_BINS,
                "recall": round(float(right[n] / max(1.0, right[-1])), 6),
                "falsePositiveRate": round(float(wrong[n] / max(1.0, wrong[-1])), 6),
            }
            for n in range(NUM_BINS)
        ]


def _bin(index: int, sums: npt.NDArray[np.float64]) -> dict[str, Any]:
    count, confidence, right = sums.tolist()
    return {
        "from": index / NUM_BINS,
        "to": (index + 1) / NUM_BINS,
        "num_questions": int(count),
        "confidence": round(confidence / count, 6),
        "accuracy": round(right / count, 6),
    }
