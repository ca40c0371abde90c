"""Dropout without state: each mask is a pure function of (seed, step, call, row, position).

Keras's own dropout draws from state that no checkpoint holds, and a layer that is recomputed for
the gradient draws anew. Here Keras's dropout layers call this in place of their own code.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf
import tf_keras


class StatelessDropout:
    """Replaces the dropout of a model's layers, and holds the seed of the step being traced.

    Args:
        model: Its `Dropout` layers are changed for good; without a seed they pass inputs on.
        seed: Of the run.
    """

    def __init__(self, model: tf_keras.Model, *, seed: int) -> None:
        self._seed = seed
        self._step_seed: Any = None
        self._first_row: Any = 0
        self.num_calls = 0
        """Calls since the step's start: each has its own mask, as layers may be shared. Who calls
        layers again to recompute them sets it back to what it was."""
        for module in model.submodules:
            if isinstance(module, tf_keras.layers.Dropout):
                module.call = _DropoutCall(self, module.rate)

    def start_step(self, step: Any, *, first_row: Any) -> None:
        """Sets the seed for the model's call that follows, in the same trace.

        Args:
            step: int scalar.
            first_row: Which row of the global batch the replica's first row is: replicas draw
                what one device would draw for their rows.
        """
        self._step_seed = tf.random.experimental.stateless_fold_in([self._seed, 0], step)
        self._first_row = first_row
        self.num_calls = 0

    def drop(self, inputs: Any, *, rate: float) -> Any:
        """Sets a share of `inputs` [B, …] to 0 and scales up the rest."""
        seed = tf.random.experimental.stateless_fold_in(self._step_seed, self.num_calls)
        self.num_calls += 1
        bits = _row_bits(seed, inputs, self._first_row)
        kept = bits >= tf.constant(round(rate * 2**32), tf.uint32)
        return tf.where(kept, inputs * tf.cast(1 / (1 - rate), inputs.dtype), 0)


class _DropoutCall:
    """Stands for the `call` of one of a model's dropout layers."""

    def __init__(self, dropout: StatelessDropout, rate: float) -> None:
        self._dropout, self._rate = dropout, rate

    def __call__(self, inputs: Any, training: bool | None = None) -> Any:
        if not training or not self._rate:
            return tf.identity(inputs)
        return self._dropout.drop(inputs, rate=self._rate)


_NUMBERS_PER_COUNT = 4
"""Philox gives four 32-bit numbers for each value of its counter."""


def _row_bits(seed: Any, inputs: Any, first_row: Any) -> Any:
    """uint32, of the shape of `inputs`: the rows from `first_row` on of one endless stream."""
    num_rows, *rest = inputs.shape
    counts_per_row = math.ceil(math.prod(rest) / _NUMBERS_PER_COUNT)
    key, counter = _key_and_counter(seed)
    first_count = tf.cast(first_row, tf.uint64) * tf.constant(counts_per_row, tf.uint64)
    bits = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[num_rows, counts_per_row * _NUMBERS_PER_COUNT],
        key=key,
        counter=counter + tf.stack([first_count, tf.zeros_like(first_count)]),
        alg=tf.random.Algorithm.PHILOX.value,
        dtype=tf.uint32,
    )
    return tf.reshape(bits[:, : math.prod(rest)], inputs.shape)


def _key_and_counter(seed: Any) -> tuple[Any, Any]:
    result = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed)
    return result.key, result.counter
