"""Dropout without state: each mask is a pure function of (seed, step, call, row, position).

Keras's own dropout draws from state that no checkpoint holds, and a layer that is recomputed for
the gradient draws anew. Here Keras's dropout layers call this in place of their own code.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from clozeflow.training.kernels import LIBRARY, RandomBits


class StatelessDropout:
    """Replaces the dropout of a model's layers, and holds the step being traced.

    Args:
        model: Its `Dropout` layers are changed for good; without a seed they pass inputs on.
        seed: Of the run.
        random_bits: What the masks are made from.
    """

    def __init__(
        self,
        model: tf_keras.Model,
        *,
        seed: int,
        random_bits: RandomBits = LIBRARY.random_bits,
    ) -> None:
        self._seed = seed
        self._random_bits = random_bits
        self._step: Any = None
        self._first_row: Any = 0
        self.num_calls = 0
        """Calls since the step's start: each has its own mask, as layers may be shared. Who calls
        layers again to recompute them sets it back to what it was."""
        for module in model.submodules:
            if isinstance(module, tf_keras.layers.Dropout):
                module.call = _DropoutCall(self, module.rate)

    def start_step(self, step: Any, *, first_row: Any) -> None:
        """Sets the step for the model's call that follows, in the same trace.

        Args:
            step: int scalar.
            first_row: Which row of the global batch the replica's first row is: replicas draw
                what one device would draw for their rows.
        """
        self._step = step
        self._first_row = first_row
        self.num_calls = 0

    def drop(self, inputs: Any, *, rate: float) -> Any:
        """Sets a share of `inputs` [B, …] to 0 and scales up the rest."""
        call = self.num_calls
        self.num_calls += 1
        bits = self._random_bits(self._seed, self._step, call, inputs.shape, self._first_row)
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
