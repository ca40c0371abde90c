"""Optimizers: state as plain variables, updates as functions of gradient, rate and step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf


class AdamW:
    """Adam with decoupled weight decay (Loshchilov, Hutter: arXiv 1711.05101).

    Vectors (biases and the norms' scales and offsets) are not decayed. The betas and epsilon
    are RoBERTa's (arXiv 1907.11692, section 3.1): a shorter memory of squared gradients keeps
    large batches stable.

    Args:
        variables: What is trained. Make the optimizer under the scope of their strategy.
        weight_decay: Share of a weight that a step takes off, in units of the learning rate.
    """

    BETA_1, BETA_2, EPSILON = 0.9, 0.98, 1e-6

    def __init__(self, variables: Sequence[tf.Variable], *, weight_decay: float) -> None:
        self._weight_decay = weight_decay
        self._first = [_zeros_like(v) for v in variables]
        self._second = [_zeros_like(v) for v in variables]

    @property
    def slots(self) -> Mapping[str, Sequence[tf.Variable]]:
        """The state by name, in the variables' order: what a checkpoint must hold."""
        return {"first_moment": self._first, "second_moment": self._second}

    def update(
        self,
        strategy: Any,
        variables: Sequence[tf.Variable],
        gradients: Sequence[Any],
        *,
        rate: Any,
        step: Any,
    ) -> None:
        """Changes the variables and the state.

        Args:
            strategy: Whose replicas hold the variables; called across replicas.
            variables: As given at the start.
            gradients: Dense, one a variable, the same on every replica.
            rate: float32 scalar.
            step: int scalar, 0 for the first.
        """
        for variable, gradient, first, second in zip(
            variables, gradients, self._first, self._second, strict=True
        ):
            strategy.extended.update(
                variable, self._update_one, args=(gradient, first, second, rate, step), group=False
            )

    def _update_one(
        self, variable: Any, gradient: Any, first: Any, second: Any, rate: Any, step: Any
    ) -> None:
        if self._weight_decay and variable.shape.rank > 1:
            variable.assign_sub(variable * (rate * self._weight_decay))
        count = tf.cast(step + 1, tf.float32)
        # One pass over the memory instead of ten: the update is bound by memory.
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=first.handle,
            v=second.handle,
            beta1_power=tf.pow(self.BETA_1, count),
            beta2_power=tf.pow(self.BETA_2, count),
            lr=rate,
            beta1=self.BETA_1,
            beta2=self.BETA_2,
            epsilon=self.EPSILON,
            grad=gradient,
        )


def _zeros_like(variable: tf.Variable) -> tf.Variable:
    return tf.Variable(tf.zeros(variable.shape, tf.float32), trainable=False)
