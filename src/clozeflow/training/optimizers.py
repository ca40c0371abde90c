"""Optimizers: state as plain variables, updates as functions of gradient, rate and step.

Vectors (biases, and the norms' scales and offsets) are never decayed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import tensorflow as tf

from clozeflow.training.config import OptimizerName


class Optimizer:
    """What optimizers have in common: slots, and one update for each variable.

    Args:
        variables: What is trained. Make the optimizer under the scope of their strategy.
        weight_decay: Share of a weight that a step takes off, in units of the learning rate.
    """

    SLOTS: ClassVar[tuple[str, ...]]

    def __init__(self, variables: Sequence[tf.Variable], *, weight_decay: float) -> None:
        self._weight_decay = weight_decay
        self.slots: Mapping[str, Sequence[tf.Variable]] = {
            slot: [_zeros_like(variable) for variable in variables] for slot in self.SLOTS
        }
        """The state by name, in the variables' order: what a checkpoint must hold."""

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
        count = tf.cast(step + 1, tf.float32)
        for variable, gradient, *slots in zip(
            variables, gradients, *self.slots.values(), strict=True
        ):
            decay = self._weight_decay if variable.shape.rank > 1 else 0.0
            arguments = (gradient, rate, count, decay, *slots)
            strategy.extended.update(variable, self.update_one, args=arguments, group=False)

    def update_one(
        self, variable: Any, gradient: Any, rate: Any, count: Any, decay: float, *slots: Any
    ) -> None:
        """Changes one variable on one replica; `count` is 1 at the first step."""
        raise NotImplementedError


class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov, Hutter: arXiv 1711.05101).

    The betas and epsilon are RoBERTa's (arXiv 1907.11692, section 3.1): a shorter memory of
    squared gradients keeps large batches stable.
    """

    SLOTS = ("first_moment", "second_moment")
    BETA_1, BETA_2, EPSILON = 0.9, 0.98, 1e-6

    def update_one(
        self, variable: Any, gradient: Any, rate: Any, count: Any, decay: float, *slots: Any
    ) -> None:
        """See `Optimizer.update_one`."""
        first, second = slots
        if decay:
            variable.assign_sub(variable * (rate * decay))
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


class Lamb(Optimizer):
    """Adam with a rate for each matrix in proportion to its norm (You et al., arXiv 1904.00962).

    For very large batches. Vectors are updated as by Adam.
    """

    SLOTS = ("first_moment", "second_moment")
    BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-6

    def update_one(
        self, variable: Any, gradient: Any, rate: Any, count: Any, decay: float, *slots: Any
    ) -> None:
        """See `Optimizer.update_one`."""
        first, second = slots
        first.assign(self.BETA_1 * first + (1 - self.BETA_1) * gradient)
        second.assign(self.BETA_2 * second + (1 - self.BETA_2) * tf.square(gradient))
        mean = first / (1 - tf.pow(self.BETA_1, count))
        variance = second / (1 - tf.pow(self.BETA_2, count))
        change = mean / (tf.sqrt(variance) + self.EPSILON) + decay * variable
        if variable.shape.rank > 1:
            change *= _trust(tf.norm(variable), tf.norm(change))
        variable.assign_sub(rate * change)


class Lion(Optimizer):
    """The sign of an interpolated momentum (Chen et al., arXiv 2302.06675, algorithm 2).

    Half of AdamW's state. Its rate is three to ten times smaller than AdamW's, and its decay as
    much larger.
    """

    SLOTS = ("momentum",)
    BETA_1, BETA_2 = 0.9, 0.99

    def update_one(
        self, variable: Any, gradient: Any, rate: Any, count: Any, decay: float, *slots: Any
    ) -> None:
        """See `Optimizer.update_one`."""
        del count
        (momentum,) = slots
        change = tf.sign(self.BETA_1 * momentum + (1 - self.BETA_1) * gradient)
        variable.assign_sub(rate * (change + decay * variable))
        momentum.assign(self.BETA_2 * momentum + (1 - self.BETA_2) * gradient)


OPTIMIZERS: Mapping[OptimizerName, type[Optimizer]] = {
    OptimizerName.ADAMW: AdamW,
    OptimizerName.LAMB: Lamb,
    OptimizerName.LION: Lion,
}


def _trust(weight_norm: Any, change_norm: Any) -> Any:
    """LAMB's ratio of norms; 1 where one of them is 0, as at the start."""
    ratio = weight_norm / tf.where(change_norm > 0, change_norm, 1.0)
    return tf.where((weight_norm > 0) & (change_norm > 0), ratio, 1.0)


def _zeros_like(variable: tf.Variable) -> tf.Variable:
    return tf.Variable(tf.zeros(variable.shape, tf.float32), trainable=False)
