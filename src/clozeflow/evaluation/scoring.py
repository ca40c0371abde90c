"""Asking a model every question of a split, a bounded batch at a time."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clozeflow.artifacts import Artifact
from clozeflow.errors import UserError
from clozeflow.evaluation.config import EvaluateConfig
from clozeflow.evaluation.models import MaskedLanguageModel
from clozeflow.evaluation.questions import Questions, Rule, make_questions
from clozeflow.progress import progress
from clozeflow.shards.reader import eval_batches

MAX_LOGITS_PER_CALL = 1 << 26
"""256 MiB of float32: with a large vocabulary fewer rows go into a call."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answers:
    """What a model says to N questions."""

    log_probabilities: npt.NDArray[np.float32]
    """[N]: of the token that was there, natural logarithm."""
    ranks: npt.NDArray[np.int32]
    """[N]: how many tokens the model holds more likely than the one that was there."""
    best_tokens: npt.NDArray[np.int32]
    """[N]: the model's first answer."""
    best_probabilities: npt.NDArray[np.float32]
    """[N]: the model's confidence in its first answer."""


def ask(
    model: MaskedLanguageModel, shards: Artifact, config: EvaluateConfig
) -> Iterator[tuple[Questions, Answers]]:
    """The questions of the split and the model's answers, batch by batch, the last one partial."""
    seq_len = int(shards.manifest.properties["seq_len"])
    rule = Rule(
        masking_rate=config.masking_rate,
        shown=config.shown,
        mask_token_id=model.mask_token_id,
        is_ordinary=model.pieces.is_ordinary,
    )
    batch_size = rows_in_a_call(config.batch_size, rule.num_places(seq_len) * model.vocab_size)
    answer = answer_function(model)
    total = shards.manifest.splits[config.split].counts["num_examples"]
    with progress(total=total, description="questions", unit="row") as bar:
        for batch in eval_batches(shards, split=config.split, batch_size=batch_size):
            questions = make_questions(batch, rule=rule, seed=config.seed)
            if len(questions.labels):
                yield questions, answer(questions)
            bar.update(len(questions.row_numbers))


def rows_in_a_call(batch_size: int, logits_per_row: int) -> int:
    """The batch size, or less where the logits of so many rows would not fit."""
    return max(1, min(batch_size, MAX_LOGITS_PER_CALL // logits_per_row))


def answer_function(model: MaskedLanguageModel) -> Callable[[Questions], Answers]:
    """The model as a function of questions.

    The function raises a `UserError` when the model's numbers are not finite.
    """
    grade = _grading()

    def answer(questions: Questions) -> Answers:
        logits = model.logits_at(
            questions.input_ids, questions.attention_mask, questions.masked_positions
        )
        graded = grade(logits, tf.constant(questions.masked_labels))
        log_probabilities, *others = (tensor.numpy()[questions.is_asked] for tensor in graded)
        if not np.isfinite(log_probabilities).all():
            raise UserError(
                model.folder,
                "the model answers with numbers that are not finite",
                fix="Its training diverged: look at its training.jsonl and train it again.",
            )
        return Answers(
            log_probabilities=log_probabilities,
            ranks=others[0],
            best_tokens=others[1],
            best_probabilities=others[2],
        )

    return answer


@functools.cache
def _grading() -> Callable[..., Any]:
    """`_grade` as one graph for batches of any size and every model."""
    signature = [
        tf.TensorSpec([None, None, None], tf.float32),
        tf.TensorSpec([None, None], tf.int32),
    ]
    return tf.function(_grade, input_signature=signature, autograph=False)


def _grade(logits: Any, labels: Any) -> tuple[Any, Any, Any, Any]:
    """Logits [B, P, V] against labels [B, P]; of equal ones the lower id is first, as in top-k."""
    log_probabilities = tf.nn.log_softmax(logits)
    of_label = tf.gather(logits, labels, batch_dims=2)[..., None]
    ids = tf.range(tf.shape(logits)[-1])
    is_before = (logits > of_label) | ((logits == of_label) & (ids < labels[..., None]))
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    return (
        tf.gather(log_probabilities, labels, batch_dims=2),
        tf.reduce_sum(tf.cast(is_before, tf.int32), axis=-1),
        best,
        tf.exp(tf.gather(log_probabilities, best, batch_dims=2)),
    )
