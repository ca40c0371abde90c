"""What a step's arithmetic takes, and what the devices could do: model FLOPs utilisation."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

_TERA = 1e12
_PEAKS: Mapping[str, float] = {
    "v2": 22.5 * _TERA,
    "v3": 61.5 * _TERA,
    "v4": 275 * _TERA,
    "v5litepod": 197 * _TERA,
    "v6e": 918 * _TERA,
    "V100": 125 * _TERA,
    "T4": 65 * _TERA,
    "L4": 121 * _TERA,
    "A100": 312 * _TERA,
    "H100": 989 * _TERA,
}
"""Dense bfloat16 (float16 for V100 and T4) of what TensorFlow counts as one replica: on TPU v2
and v3 a core, elsewhere a chip. From the makers' data sheets."""


def step_flops(
    model_config: Any, *, num_examples: int, seq_len: int, num_masked_positions: int
) -> float:
    """What a step needs, forward and backward: products of matrices alone, dropout and such apart.

    The head is counted at the masked positions; what is computed again is not counted twice.

    Args:
        model_config: Of an encoder as BERT's.
        num_examples: In the global batch.
        seq_len: Tokens in each.
        num_masked_positions: In each.
    """
    hidden, layers = model_config.hidden_size, model_config.num_hidden_layers
    inner = getattr(model_config, "intermediate_size", 0) or 4 * hidden
    of_token = 4 * hidden * hidden + 2 * hidden * inner + 2 * seq_len * hidden
    of_head = hidden * (hidden + model_config.vocab_size)
    # A product of an m x k and a k x n matrix takes 2 m k n; its gradients take twice that.
    products = layers * of_token * seq_len + of_head * num_masked_positions
    return 6.0 * products * num_examples


def peak_flops(strategy: tf.distribute.Strategy) -> float:
    """FLOP a second of all replicas together, at best; 0 where the device is not known."""
    name = _device_name(strategy)
    known = next((peak for key, peak in _PEAKS.items() if re.search(rf"\b{key}\b", name)), 0.0)
    return known * strategy.num_replicas_in_sync


def _device_name(strategy: tf.distribute.Strategy) -> str:
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return os.environ.get("TPU_ACCELERATOR_TYPE", "")
    gpus = tf.config.list_physical_devices("GPU")
    details = tf.config.experimental.get_device_details(gpus[0]) if gpus else {}
    return str(details.get("device_name", ""))
