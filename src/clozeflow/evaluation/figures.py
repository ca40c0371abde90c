"""Figures from running sums, in memory that does not grow with the number of questions.

Each question becomes one row of a few numbers (`measure`); everything that is reported is a
function of sums of such rows: over all questions, over those of a slice, or over a resample.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from clozeflow.evaluation.gate import FIGURES
from clozeflow.evaluation.guesses import Guesses
from clozeflow.evaluation.pieces import Pieces
from clozeflow.evaluation.questions import Questions
from clozeflow.evaluation.scoring import Answers

COLUMNS = ("questions", "nats", "top1", "top5", "top10", "bytes", "most_frequent", "unigram_nats")
"""What is summed, one column each (F of them)."""

DIGITS = 6
"""Decimals that are kept: float32 logits carry no more, and batches of other sizes agree so far."""


def measure(
    questions: Questions, answers: Answers, pieces: Pieces, guesses: Guesses
) -> npt.NDArray[np.float64]:
    """Float64 [N, F]: one row of `COLUMNS` a question."""
    labels, ranks = questions.labels, answers.ranks
    columns = (
        np.ones(len(labels)),
        -answers.log_probabilities.astype(np.float64),
        ranks < 1,
        ranks < 5,
        ranks < 10,
        pieces.num_bytes[labels],
        labels == guesses.most_frequent_token,
        -guesses.log_probabilities[labels],
    )
    return np.stack(columns, axis=1).astype(np.float64)


def figures_of(sums: npt.NDArray[np.float64]) -> dict[str, float]:
    """The figures of a sum over questions, float64 [F]; those that are not defined are left out."""
    total = dict(zip(COLUMNS, sums.tolist(), strict=True))
    count, nats_per_bit = total["questions"], math.log(2)
    if not count:
        return {}
    figures = {
        "loss": total["nats"] / count,
        "perplexity": math.exp(min(total["nats"] / count, 700.0)),
        "masked_accuracy": total["top1"] / count,
        "masked_accuracy_top5": total["top5"] / count,
        "masked_accuracy_top10": total["top10"] / count,
        "most_frequent_token_accuracy": total["most_frequent"] / count,
        "unigram_loss": total["unigram_nats"] / count,
    }
    if total["most_frequent"]:
        figures["accuracy_ratio"] = total["top1"] / total["most_frequent"]
    if total["bytes"]:
        figures["bits_per_byte"] = total["nats"] / nats_per_bit / total["bytes"]
        figures["unigram_bits_per_byte"] = total["unigram_nats"] / nats_per_bit / total["bytes"]
    return {name: round(figures[name], DIGITS) for name in FIGURES if name in figures}


class Tally:
    """The running sums of a model's answers, and the figures that they make."""

    def __init__(self, pieces: Pieces, guesses: Guesses) -> None:
        self._pieces, self._guesses = pieces, guesses
        self._total = np.zeros(len(COLUMNS))

    def add(self, questions: Questions, answers: Answers) -> None:
        """Counts one batch in."""
        measured = measure(questions, answers, self._pieces, self._guesses)
        self._total += measured.sum(axis=0)

    @property
    def num_questions(self) -> int:
        """Questions so far."""
        return int(self._total[0])

    @property
    def figures(self) -> dict[str, float]:
        """See `gate.FIGURES`."""
        return figures_of(self._total)
