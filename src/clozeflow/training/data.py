"""Batches for the step: read, masked, and divided among replicas."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from clozeflow.artifacts import Artifact
from clozeflow.errors import UserError
from clozeflow.shards import reader
from clozeflow.training.masking import MaskingRule, mask_batch, mask_rows

OUT_OF_RANGE = "an id is outside the vocabulary"


def training_batches(
    strategy: tf.distribute.Strategy,
    shards: Artifact,
    *,
    rule: MaskingRule,
    global_batch_size: int,
    seed: int,
    start_step: int,
) -> Any:
    """A distributed iterator over masked batches, from `start_step` on, without end.

    Each replica gets its consecutive rows of the global batch, masked before the division: what
    the replicas see together does not depend on their number.
    """

    def of_process(context: tf.distribute.InputContext) -> tf.data.Dataset:
        num_local = context.num_replicas_in_sync // context.num_input_pipelines
        first_row = context.input_pipeline_id * (global_batch_size // context.num_input_pipelines)
        dataset = reader.train_batches(
            shards,
            global_batch_size=global_batch_size,
            seed=seed,
            start_step=start_step,
            process_index=context.input_pipeline_id,
            num_processes=context.num_input_pipelines,
        )
        masked = dataset.map(
            lambda batch: _mask(batch, rule, seed, global_batch_size, first_row),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        return _divide(masked, num_local).prefetch(tf.data.AUTOTUNE)

    return iter(strategy.distribute_datasets_from_function(of_process))


def validation_batches(
    strategy: tf.distribute.Strategy, shards: Artifact, *, rule: MaskingRule, batch_size: int
) -> Any:
    """A distributed dataset over the whole validation split, with the same masks each time.

    An example's mask is a function of its index alone. The last batch is filled up with examples
    of padding, whose masked positions count for nothing.
    """

    def of_process(context: tf.distribute.InputContext) -> tf.data.Dataset:
        num_parts = context.num_input_pipelines
        rows = slice(*(batch_size // num_parts * (context.input_pipeline_id + i) for i in (0, 1)))

        def prepare(batch: dict[str, Any]) -> dict[str, Any]:
            masked = mask_rows(
                batch["input_ids"],
                batch["attention_mask"],
                batch["row"],
                seed=_VALIDATION_SEED,
                rule=rule,
                rate=rule.rate,
            )
            return {name: _fill(value, batch_size)[rows] for name, value in masked.items()}

        dataset = reader.eval_batches(shards, split="validation", batch_size=batch_size)
        prepared = dataset.map(prepare, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        num_local = context.num_replicas_in_sync // num_parts
        return _divide(prepared, num_local).prefetch(tf.data.AUTOTUNE)

    return strategy.distribute_datasets_from_function(of_process)


_VALIDATION_SEED = 20_260_101
"""Not the run's: runs with different seeds are compared by the same questions."""


def _fill(rows: Any, num_rows: int) -> Any:
    """Rows of zeros after the given ones, up to a fixed number."""
    missing = num_rows - tf.shape(rows)[0]
    filled = tf.pad(rows, [[0, missing], *([0, 0] for _ in rows.shape[1:])])
    return tf.ensure_shape(filled, [num_rows, *rows.shape[1:]])


def _mask(
    batch: dict[str, Any], rule: MaskingRule, seed: int, global_batch_size: int, first_row: int
) -> dict[str, Any]:
    in_range = tf.debugging.Assert(
        tf.reduce_all((batch["input_ids"] >= 0) & (batch["input_ids"] < rule.vocab_size)),
        [OUT_OF_RANGE, "step", batch["step"], "highest", tf.reduce_max(batch["input_ids"])],
    )
    with tf.control_dependencies([in_range]):
        input_ids = tf.identity(batch["input_ids"])
    return mask_batch(
        input_ids,
        batch["attention_mask"],
        seed=seed,
        step=batch["step"],
        rule=rule,
        global_batch_size=global_batch_size,
        first_row=first_row,
    )


def _divide(dataset: tf.data.Dataset, num_parts: int) -> tf.data.Dataset:
    """Each batch as `num_parts` smaller ones, one after the other: one for each replica."""
    if num_parts == 1:
        return dataset

    def parts(batch: dict[str, Any]) -> tf.data.Dataset:
        divided = {
            name: tf.reshape(value, [num_parts, value.shape[0] // num_parts, *value.shape[1:]])
            for name, value in batch.items()
        }
        return tf.data.Dataset.from_tensor_slices(divided)

    return dataset.flat_map(parts)


@contextlib.contextmanager
def readable_errors(shards: Artifact) -> Iterator[None]:
    """Turns what TensorFlow makes of an error in the input into the user's error that it was."""
    try:
        yield
    except tf.errors.OpError as error:
        if found := reader.original_error(error):
            raise found from error
        if OUT_OF_RANGE in str(error.message):
            raise UserError(
                shards.uri,
                f"{OUT_OF_RANGE} of the tokenizer",
                fix="Make the shards again with this tokenizer: `clozeflow shard`.",
            ) from error
        raise
