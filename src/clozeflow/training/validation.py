"""Validation during training: the same questions each time, so that losses can be compared."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from clozeflow.artifacts import Artifact
from clozeflow.training import data
from clozeflow.training.masking import MaskingRule
from clozeflow.training.progress import Validation
from clozeflow.training.step import TrainStep, loss_sums


class Validator:
    """Asks a model about the masked tokens of the validation split.

    Args:
        strategy: Whose replicas hold the model.
        step: What trains it.
        shards: With a validation split.
        rule: How examples are masked, at its first rate.
        batch_size: Over all replicas.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        step: TrainStep,
        shards: Artifact,
        *,
        rule: MaskingRule,
        batch_size: int,
    ) -> None:
        self._strategy, self._step = strategy, step
        self._batches = data.validation_batches(strategy, shards, rule=rule, batch_size=batch_size)
        num_examples = shards.manifest.splits["validation"].counts["num_examples"]
        self._num_batches = tf.constant(-(-num_examples // batch_size), tf.int32)

    def measure(self, step: int) -> Validation:
        """The mean loss and the accuracy of the model as it is after `step` steps."""
        loss_sum, num_correct, num_masked = self._sums(iter(self._batches)).numpy().tolist()
        return Validation(
            step=step, loss=loss_sum / num_masked, masked_accuracy=num_correct / num_masked
        )

    @tf.function(reduce_retracing=True)
    def _sums(self, batches: Any) -> Any:
        """float32 [3]: see `loss_sums`."""
        replica_sums = tf.autograph.experimental.do_not_convert(self._replica_sums)
        sums = tf.zeros([3])
        for _ in tf.range(self._num_batches):
            per_replica = self._strategy.run(replica_sums, args=(next(batches),))
            sums += self._strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica, axis=None)
        return sums

    def _replica_sums(self, batch: dict[str, Any]) -> Any:
        return loss_sums(self._step.model, batch, training=False, kernels=self._step.kernels)
