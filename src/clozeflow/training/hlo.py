"""The step as XLA's compilers get it: its HLO, made on any machine.

What trains and what is compiled for a TPU that is not there are one source: `TrainStep`.

Shape legend: B rows on a replica, T tokens in a row, P masked positions in a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from clozeflow.training.step import TrainStep


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


def step_hlo(step: TrainStep, specs: Mapping[str, Any]) -> bytes:
    """One whole step of one replica as a serialised HLO module.

    Weights, slots and the batch are its arguments; the metrics and the new weights and slots
    are its results.

    Args:
        step: Made under TensorFlow's default strategy, in the arithmetic of the TPU
            (`precision_policy`).
        specs: See `batch_specs`.
    """
    names = sorted(specs)  # the arguments' order

    @tf.function(jit_compile=True, autograph=False)
    def one_step(number: Any, *values: Any) -> Any:
        return step.replica_step(dict(zip(names, values, strict=True)), number)

    arguments = (tf.TensorSpec([], tf.int64), *(specs[name] for name in names))
    return one_step.experimental_get_compiler_ir(*arguments)(stage="hlo_serialized")
