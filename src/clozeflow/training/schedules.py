"""The learning rate as a function of the step.

All schedules rise linearly from 0 over the warm-up. Step 0 is the first; its rate is above 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from clozeflow.training.config import ScheduleName, TrainConfig

Schedule = Callable[[Any], Any]
"""From a step (int scalar) to the rate of that step (float32 scalar)."""

Shape = Callable[[Any, TrainConfig, int], Any]
"""From the number of steps done (float32) to the share of the peak after the warm-up."""


def make_schedule(config: TrainConfig, num_train_steps: int) -> Schedule:
    """The schedule that the settings ask for, over a run of so many steps."""
    shape = _SHAPES[config.schedule]

    def rate(step: Any) -> Any:
        done = tf.cast(step, tf.float32)
        rising = (done + 1) / max(config.warmup_steps, 1)
        share = tf.minimum(tf.minimum(rising, shape(done, config, num_train_steps)), 1.0)
        return config.peak_learning_rate * share

    return rate


def describe(config: TrainConfig) -> str:
    """The schedule of a run, in a line."""
    steps, warmup = config.num_train_steps, config.warmup_steps
    rate = make_schedule(config, steps)
    ends = [f"{float(rate(step)):.3g} at step {step + 1:,}" for step in (0, warmup, steps - 1)]
    return (
        f"{steps:,} steps of {config.global_batch_size:,} examples; learning rate "
        f"({config.schedule}, {warmup:,} to warm up): {', '.join(dict.fromkeys(ends))}"
    )


def _linear(done: Any, config: TrainConfig, num_train_steps: int) -> Any:
    return (num_train_steps - done) / (num_train_steps - config.warmup_steps)


def _cosine(done: Any, config: TrainConfig, num_train_steps: int) -> Any:
    """Half a cosine (Loshchilov, Hutter: arXiv 1608.03983)."""
    passed = (done - config.warmup_steps) / (num_train_steps - config.warmup_steps)
    return 0.5 * (1 + tf.cos(3.141592653589793 * tf.clip_by_value(passed, 0.0, 1.0)))


def _warmup_stable_decay(done: Any, config: TrainConfig, num_train_steps: int) -> Any:
    """Flat, and linearly down at the end (Hu et al., arXiv 2404.06395, section 4)."""
    return (num_train_steps - done) / max(1.0, config.decay_share * num_train_steps)


def _inverse_root(done: Any, config: TrainConfig, num_train_steps: int) -> Any:
    """As one over the root of the step (Vaswani et al., arXiv 1706.03762, section 5.3)."""
    del num_train_steps
    return tf.sqrt(max(config.warmup_steps, 1) / (done + 1))


_SHAPES: Mapping[ScheduleName, Shape] = {
    ScheduleName.LINEAR: _linear,
    ScheduleName.COSINE: _cosine,
    ScheduleName.WSD: _warmup_stable_decay,
    ScheduleName.INVERSE_ROOT: _inverse_root,
}
