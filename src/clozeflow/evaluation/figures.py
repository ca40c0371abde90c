"""Figures from running sums, in memory that does not grow with the number of questions.

Each question becomes one row of a few numbers (`measure`); everything that is reported is a
function of sums of such rows: over all questions, over those of a slice, or over a resample.

Shapes: N questions, F columns, B rows, R resamples.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from clozeflow.evaluation.calibration import Calibration
from clozeflow.evaluation.gate import FIGURES
from clozeflow.evaluation.guesses import Guesses
from clozeflow.evaluation.mistakes import Mistakes
from clozeflow.evaluation.pieces import Pieces
from clozeflow.evaluation.questions import Questions
from clozeflow.evaluation.resampling import Resamples, interval
from clozeflow.evaluation.scoring import Answers
from clozeflow.evaluation.slicing import Slicing, group_sums

Float64s = npt.NDArray[np.float64]

COLUMNS = (
    *("questions", "nats", "top1", "top5", "top10", "bytes", "most_frequent", "unigram_nats"),
    *("masks", "mask_nats", "mask_top1"),
)
"""What is summed, one column each."""

DIGITS = 6
"""Decimals that are kept: float32 logits carry no more, and batches of other sizes agree so far."""

_MAX_LOSS = 700.0
"""Where e to the loss still is a number."""


class Tally:
    """The running sums of a model's answers, and all that is made of them."""

    def __init__(
        self, pieces: Pieces, guesses: Guesses, slicings: tuple[Slicing, ...], *, mask_token_id: int
    ) -> None:
        self._pieces, self._guesses, self._mask_token_id = pieces, guesses, mask_token_id
        self._slices = {
            slicing: np.zeros((len(slicing.groups), len(COLUMNS))) for slicing in slicings
        }
        self._total = np.zeros(len(COLUMNS))
        self._resamples = Resamples(len(COLUMNS))
        self._calibration = Calibration()
        self._mistakes = Mistakes(pieces, mask_token_id)

    def add(self, questions: Questions, answers: Answers) -> None:
        """Counts one batch in."""
        measured = measure(
            questions, answers, self._pieces, self._guesses, mask_token_id=self._mask_token_id
        )
        self._total += measured.sum(axis=0)
        for slicing in self._slices:
            groups = slicing.group_of(questions)
            self._slices[slicing] += group_sums(groups, measured, len(slicing.groups))
        num_rows = len(questions.row_numbers)
        row_sums = group_sums(questions.batch_index, measured, num_rows)
        self._resamples.add(questions.row_numbers, row_sums)
        self._calibration.add(answers)
        self._mistakes.add(questions, answers)

    @property
    def num_questions(self) -> int:
        """Questions so far."""
        return int(self._total[0])

    @property
    def figures(self) -> dict[str, float]:
        """See `gate.FIGURES`; those that are not defined are left out."""
        found = figures_of(self._total)
        error = round(self._calibration.error, DIGITS)
        return {**found, "calibration_error": error} if found else {}

    @property
    def intervals(self) -> dict[str, list[float]]:
        """The 95 % interval of each figure that has one."""
        return intervals_of(ratios(self._resamples.sums))

    def intervals_against(self, baseline: Tally) -> dict[str, list[float]]:
        """The 95 % intervals of this model's figures minus the baseline's: resamples are paired."""
        own, other = ratios(self._resamples.sums), ratios(baseline._resamples.sums)
        with np.errstate(invalid="ignore"):
            return intervals_of({name: own[name] - other[name] for name in own})

    @property
    def slices(self) -> list[dict[str, Any]]:
        """For each slicing its name and the figures of its groups that have questions."""
        return [
            {
                "name": slicing.name,
                "groups": [
                    {"group": group, "num_questions": int(row[0]), **figures_of(row)}
                    for group, row in zip(slicing.groups, sums, strict=True)
                    if row[0]
                ],
            }
            for slicing, sums in self._slices.items()
        ]

    @property
    def calibration(self) -> list[dict[str, Any]]:
        """See `Calibration.bins`."""
        return self._calibration.bins

    @property
    def roc(self) -> list[dict[str, float]]:
        """See `Calibration.roc`."""
        return self._calibration.roc

    @property
    def mistakes(self) -> list[dict[str, Any]]:
        """See `Mistakes.worst`."""
        return self._mistakes.worst


def measure(
    questions: Questions,
    answers: Answers,
    pieces: Pieces,
    guesses: Guesses,
    *,
    mask_token_id: int,
) -> Float64s:
    """Float64 [N, F]: one row of `COLUMNS` a question."""
    labels, ranks = questions.labels, answers.ranks
    nats = -answers.log_probabilities.astype(np.float64)
    is_mask = questions.shown == mask_token_id
    columns = (
        np.ones(len(labels)),
        nats,
        ranks < 1,
        ranks < 5,
        ranks < 10,
        pieces.num_bytes[labels],
        labels == guesses.most_frequent_token,
        -guesses.log_probabilities[labels],
        is_mask,
        np.where(is_mask, nats, 0.0),
        is_mask & (ranks < 1),
    )
    return np.stack(columns, axis=1).astype(np.float64)


def ratios(sums: Float64s) -> dict[str, Float64s]:
    """Figures [...] of sums over questions [..., F]; not finite where they are not defined."""
    total = dict(zip(COLUMNS, np.moveaxis(sums, -1, 0), strict=True))
    count, bits_per_nat = total["questions"], 1 / math.log(2)
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = total["nats"] / count
        return {
            "loss": loss,
            "perplexity": np.exp(np.minimum(loss, _MAX_LOSS)),
            "masked_accuracy": total["top1"] / count,
            "masked_accuracy_top5": total["top5"] / count,
            "masked_accuracy_top10": total["top10"] / count,
            "mask_loss": total["mask_nats"] / total["masks"],
            "mask_accuracy": total["mask_top1"] / total["masks"],
            "bits_per_byte": total["nats"] * bits_per_nat / total["bytes"],
            "most_frequent_token_accuracy": total["most_frequent"] / count,
            "accuracy_ratio": total["top1"] / total["most_frequent"],
            "unigram_loss": total["unigram_nats"] / count,
            "unigram_bits_per_byte": total["unigram_nats"] * bits_per_nat / total["bytes"],
        }


def figures_of(sums: Float64s) -> dict[str, float]:
    """The figures of one sum over questions [F], in the order of `gate.FIGURES`."""
    found = {name: float(value) for name, value in ratios(sums).items()}
    return {
        name: round(found[name], DIGITS)
        for name in FIGURES
        if name in found and math.isfinite(found[name])
    }


def intervals_of(values: dict[str, Float64s]) -> dict[str, list[float]]:
    """The interval of each figure from its values on the resamples [R]."""
    found = {name: interval(resampled) for name, resampled in values.items()}
    return {
        name: [round(bound, DIGITS) for bound in bounds] for name, bounds in found.items() if bounds
    }
