"""The step as XLA's compilers get it: its HLO, made on any machine.

What trains and what is compiled for a TPU that is not there are one source: `TrainStep`.

Shape legend: B rows on a replica, T tokens in a row, P masked positions in a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from clozeflow.training.step import STRATEGY_REPLICAS, Replicas, TrainStep


def batch_specs(*, num_rows: int, seq_len: int, num_masked_positions: int) -> Mapping[str, Any]:
    """What a replica's part of a batch looks like: see `masking.mask_rows`.

    Args:
        num_rows: B.
        seq_len: T.
        num_masked_positions: P, as the masking rule has it.
    """
    row, masked = [num_rows, seq_len], [num_rows, num_masked_positions]
    return {
        "input_ids": tf.TensorSpec(row, tf.int32),
        "attention_mask": tf.TensorSpec(row, tf.int32),
        "masked_positions": tf.TensorSpec(masked, tf.int32),
        "masked_labels": tf.TensorSpec(masked, tf.int32),
        "masked_weights": tf.TensorSpec(masked, tf.float32),
    }


def xla_replicas(num_replicas: int) -> Replicas:
    """Replicas as XLA's operations know them: what a strategy on TPU cores comes to.

    Args:
        num_replicas: How many; one has nothing to add.
    """
    if num_replicas == 1:
        return STRATEGY_REPLICAS
    everyone = [list(range(num_replicas))]

    def total(value: Any) -> Any:
        return gen_xla_ops.xla_all_reduce(
            input=value, group_assignment=everyone, reduce_op="Add", mode="CrossReplica"
        )

    return Replicas(
        index=gen_xla_ops.xla_replica_id,
        sums=lambda values: tf.nest.map_structure(total, values),
    )


def step_hlo(step: TrainStep, specs: Mapping[str, Any], *, num_replicas: int = 1) -> bytes:
    """One whole step of one replica as a serialised HLO module.

    Weights, slots and the batch are its arguments; the metrics and the new weights and slots
    are its results.

    Args:
        step: Made under TensorFlow's default strategy, in the arithmetic of the TPU
            (`precision_policy`).
        specs: See `batch_specs`.
        num_replicas: Over which sums and gradients are added up.
    """
    replicas = xla_replicas(num_replicas)
    names = sorted(specs)  # the arguments' order

    @tf.function(jit_compile=True, autograph=False)
    def one_step(number: Any, *values: Any) -> Any:
        return step.replica_step(dict(zip(names, values, strict=True)), number, replicas)

    arguments = (tf.TensorSpec([], tf.int64), *(specs[name] for name in names))
    return one_step.experimental_get_compiler_ir(*arguments)(stage="hlo_serialized")
