"""Pseudo-log-likelihood: every token of a text asked for in turn, with all the others shown.

The figure of Salazar and others (2020), per byte of text and in bits, so that models with other
tokenizers can be compared. It costs a row for each token: a sample of rows is measured.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from clozeflow.artifacts import Artifact
from clozeflow.evaluation.config import EvaluateConfig
from clozeflow.evaluation.figures import DIGITS
from clozeflow.evaluation.models import MaskedLanguageModel
from clozeflow.evaluation.questions import Questions
from clozeflow.evaluation.scoring import answer_function, rows_in_a_call
from clozeflow.shards.source import Source

MAX_QUESTIONS = 1024


@dataclasses.dataclass(frozen=True, kw_only=True)
class PseudoLikelihood:
    """What was asked one by one, and what it cost."""

    num_examples: int
    num_questions: int
    nats: float
    num_bytes: int

    @property
    def figures(self) -> dict[str, float]:
        """`pseudo_bits_per_byte`, where there are any bytes."""
        if not self.num_bytes:
            return {}
        return {"pseudo_bits_per_byte": round(self.nats / math.log(2) / self.num_bytes, DIGITS)}


def pseudo_likelihood(
    model: MaskedLanguageModel, shards: Artifact, config: EvaluateConfig
) -> PseudoLikelihood:
    """Asks for the tokens of a few rows, evenly spaced over the split's first shard."""
    source = Source.open(shards, config.split)
    count = max(1, min(source.sizes[0], MAX_QUESTIONS // source.seq_len))
    rows = np.arange(count) * source.sizes[0] // count
    input_ids, attention_mask = source.read(0, rows)
    answer = answer_function(model)
    batch_size = rows_in_a_call(config.batch_size, model.vocab_size)
    nats, num_bytes, num_questions = 0.0, 0, 0
    for questions in _one_by_one(model, input_ids, attention_mask.astype(np.int32), batch_size):
        nats -= float(answer(questions).log_probabilities.sum(dtype=np.float64))
        num_bytes += int(model.pieces.num_bytes[questions.labels].sum())
        num_questions += len(questions.labels)
    return PseudoLikelihood(
        num_examples=count, num_questions=num_questions, nats=nats, num_bytes=num_bytes
    )


def _one_by_one(
    model: MaskedLanguageModel,
    input_ids: npt.NDArray[np.int32],
    attention_mask: npt.NDArray[np.int32],
    batch_size: int,
) -> Iterator[Questions]:
    """Each ordinary token of each row [B, T] as the only question of a copy of its row."""
    rows, positions = np.nonzero(~model.pieces.is_special[input_ids])
    for start in range(0, len(rows), batch_size):
        row, position = rows[start : start + batch_size], positions[start : start + batch_size]
        asked = input_ids[row]
        labels = asked[np.arange(len(row)), position]
        asked[np.arange(len(row)), position] = model.mask_token_id
        yield Questions(
            input_ids=asked,
            attention_mask=attention_mask[row],
            row_numbers=row,
            masked_positions=position[:, None].astype(np.int32),
            masked_labels=labels[:, None],
            is_asked=np.ones((len(row), 1), bool),
        )
