"""The learning rate as a function of the step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

Schedule = Callable[[Any], Any]
"""From a step (int scalar, 0 for the first) to the rate of that step (float32 scalar)."""


def linear(*, peak: float, warmup_steps: int, num_train_steps: int) -> Schedule:
    """Up to `peak` over the warm-up, then down; the step after the last would have rate 0."""

    def rate(step: Any) -> Any:
        done = tf.cast(step, tf.float32)
        rising = (done + 1) / max(warmup_steps, 1)
        falling = (num_train_steps - done) / (num_train_steps - warmup_steps)
        return peak * tf.minimum(tf.minimum(rising, falling), 1.0)

    return rate
