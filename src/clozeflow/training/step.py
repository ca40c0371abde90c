"""The training step: many of them in one call of TensorFlow.

Shape legend: B rows on a replica, T tokens in a row, P masked positions in a row, V vocabulary.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from clozeflow.training.config import Compiler, Recompute
from clozeflow.training.dropout import StatelessDropout
from clozeflow.training.heads import masked_logits
from clozeflow.training.kernels import FUSABLE, LIBRARY, Kernels
from clozeflow.training.optimizers import Optimizer
from clozeflow.training.recompute import recompute_layers
from clozeflow.training.schedules import Schedule


class StepMetrics(NamedTuple):
    """What a step says of itself, over its whole global batch."""

    loss: float
    """Mean cross-entropy of the masked tokens, in nats."""
    masked_accuracy: float
    """The share of masked tokens whose id has the highest score."""
    gradient_norm: float
    """Before clipping."""
    learning_rate: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Replicas:
    """What a replica knows of the others."""

    index: Callable[[], Any]
    """Which of them it is: int32 scalar."""
    sums: Callable[[Any], Any]
    """Tensors, in any structure, added up over all of them."""


def _strategy_index() -> Any:
    return tf.distribute.get_replica_context().replica_id_in_sync_group


def _strategy_sums(values: Any) -> Any:
    replica = tf.distribute.get_replica_context()
    return replica.all_reduce(tf.distribute.ReduceOp.SUM, values)


STRATEGY_REPLICAS = Replicas(index=_strategy_index, sums=_strategy_sums)
"""Those of TensorFlow's strategy."""


class TrainStep:
    """A model, its optimizer and the function that changes both.

    Args:
        strategy: Whose scope the model and the optimizer were made in.
        model: A `TF…ForMaskedLM`; its dropout is replaced.
        optimizer: For the model's trainable variables.
        schedule: The learning rate.
        max_gradient_norm: Gradients are scaled down to this global norm.
        seed: For dropout.
        num_parts: In how many parts a replica works through its rows.
        recompute: What is computed again for the gradients.
        compiler: What compiles losses and gradients (not on a TPU, where XLA does it all).
    """

    def __init__(
        self,
        *,
        strategy: tf.distribute.Strategy,
        model: Any,
        optimizer: Optimizer,
        schedule: Schedule,
        max_gradient_norm: float,
        seed: int,
        num_parts: int = 1,
        recompute: Recompute = Recompute.NONE,
        compiler: Compiler = Compiler.NONE,
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self.data_wait_seconds = 0.0
        """How long steps have waited for their batch so far."""
        self._num_parts = num_parts
        self._strategy = strategy
        self._schedule = schedule
        self._max_gradient_norm = max_gradient_norm
        self.kernels = LIBRARY if compiler is Compiler.NONE else FUSABLE
        self._dropout = StatelessDropout(model, seed=seed, random_bits=self.kernels.random_bits)
        if recompute is Recompute.LAYERS:
            recompute_layers(model, self._dropout)
        self._work = self._sums_and_gradients
        if compiler is Compiler.XLA:
            self._work = tf.function(self._work, jit_compile=True, autograph=False)

    def run(self, batches: Iterator[Any], *, first_step: int, num_steps: int) -> list[StepMetrics]:
        """Runs steps without the host in between.

        Args:
            batches: Distributed batches, as `data.training_batches` gives them.
            first_step: The index of the first of them, from 0.
            num_steps: How many.
        """
        first = tf.constant(first_step, tf.int64)
        rows, waited = self._run(batches, first, tf.constant(num_steps, tf.int32))
        self.data_wait_seconds += float(waited)
        return [StepMetrics(*row.tolist()) for row in rows.numpy()]

    @tf.function(reduce_retracing=True)
    def _run(self, batches: Any, first_step: Any, num_steps: Any) -> Any:
        """float32 [num_steps, 4]: the fields of `StepMetrics`; seconds without data, float64."""
        # AutoGraph has nothing to convert in the model, and needs seconds to find that out.
        replica_step = tf.autograph.experimental.do_not_convert(self.replica_step)
        rows = tf.TensorArray(tf.float32, size=num_steps, element_shape=[_NUM_METRICS])
        waited, last_row = tf.zeros([], tf.float64), tf.zeros([_NUM_METRICS])
        for index in tf.range(num_steps):
            step = first_step + tf.cast(index, tf.int64)
            with tf.control_dependencies([last_row]):
                start = tf.timestamp()
            with tf.control_dependencies([start]):
                batch = next(batches)
            with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
                waited += tf.timestamp() - start
            per_replica = self._strategy.run(replica_step, args=(batch, step))
            last_row = self._strategy.experimental_local_results(per_replica)[0]
            rows = rows.write(index, last_row)
        return rows.stack(), waited

    def replica_step(
        self, batch: dict[str, Any], step: Any, replicas: Replicas = STRATEGY_REPLICAS
    ) -> Any:
        """One step, as each replica does it.

        Args:
            batch: The replica's rows, as `masking.mask_batch` makes them.
            step: int64 scalar.
            replicas: How it knows of the others.

        Returns:
            float32 [4], the same on each replica.
        """
        sums, gradients = self._work(batch, step, replicas.index())
        sums, gradients = replicas.sums((sums, gradients))
        loss_sum, num_correct, num_masked = tf.unstack(sums)
        # Scopes are for profiles, and for preflight's account of where cycles go.
        with tf.name_scope("optimizer"):
            # Sums are divided here, after the replicas are added: a masked token weighs the same
            # wherever it is. Mean and clipping are one factor: one pass over the gradients.
            norm = tf.linalg.global_norm(gradients) / num_masked
            highest = self._max_gradient_norm
            scale = highest / tf.maximum(norm, highest) / num_masked
            gradients = [gradient * scale for gradient in gradients]
            rate = self._schedule(step)
            replica = tf.distribute.get_replica_context()
            replica.merge_call(self._update, args=(gradients, rate, step))
        return tf.stack([loss_sum / num_masked, num_correct / num_masked, norm, rate])

    def _update(self, strategy: Any, gradients: Sequence[Any], rate: Any, step: Any) -> None:
        self.optimizer.update(
            strategy, self.model.trainable_variables, gradients, rate=rate, step=step
        )

    def _sums_and_gradients(self, batch: dict[str, Any], step: Any, replica_id: Any) -> Any:
        """The replica's sums (see `loss_sums`) and the gradients of its loss sum."""
        num_rows = batch["input_ids"].shape[0] // self._num_parts
        first_row = tf.cast(replica_id * num_rows * self._num_parts, tf.int64)
        if self._num_parts == 1:
            return self._part(batch, step, first_row)
        parts = {
            name: tf.reshape(value, [self._num_parts, num_rows, *value.shape[1:]])
            for name, value in batch.items()
        }

        def add_part(index: Any, sums: Any, gradients: Any) -> Any:
            part = {name: value[index] for name, value in parts.items()}
            more = self._part(part, step, first_row + tf.cast(index, tf.int64) * num_rows)
            added = tf.nest.map_structure(tf.add, (sums, gradients), more)
            return index + 1, *added

        zeros = [tf.zeros(variable.shape) for variable in self.model.trainable_variables]
        start = (0, tf.zeros([_NUM_SUMS]), zeros)
        _, sums, gradients = tf.while_loop(
            lambda index, *_: index < self._num_parts, add_part, start, parallel_iterations=1
        )
        return sums, gradients

    def _part(self, batch: dict[str, Any], step: Any, first_row: Any) -> tuple[Any, list[Any]]:
        """Sums and gradients of rows that are worked through at once."""
        self._dropout.start_step(step, first_row=first_row)
        with tf.GradientTape() as tape:
            sums = loss_sums(self.model, batch, training=True, kernels=self.kernels)
            loss_sum = sums[0]
        variables = self.model.trainable_variables
        gradients = tape.gradient(loss_sum, variables, unconnected_gradients="zero")
        # A sparse gradient of the embedding becomes a serial loop over rows on a TPU.
        return sums, [tf.convert_to_tensor(gradient) for gradient in gradients]


_NUM_METRICS = len(StepMetrics._fields)
_NUM_SUMS = 3


def loss_sums(
    model: Any, batch: dict[str, Any], *, training: bool, kernels: Kernels = LIBRARY
) -> Any:
    """Sums over a batch's masked tokens: of losses (nats), of right guesses, of tokens.

    Loss and softmax are float32 whatever the arithmetic of the layers.

    Returns:
        float32 [3].
    """
    logits_BPV = masked_logits(
        model,
        batch["input_ids"],
        batch["attention_mask"],
        batch["masked_positions"],
        training=training,
    )
    labels_BP, weights_BP = batch["masked_labels"], batch["masked_weights"]
    with tf.name_scope("loss"):
        losses_BP, guesses_BP = kernels.token_losses(logits_BPV, labels_BP)
        correct_BP = tf.cast(guesses_BP == labels_BP, tf.float32)
        return tf.stack(
            [
                tf.reduce_sum(losses_BP * weights_BP),
                tf.reduce_sum(correct_BP * weights_BP),
                tf.reduce_sum(weights_BP),
            ]
        )
