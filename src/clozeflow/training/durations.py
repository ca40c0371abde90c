"""How long a run is: steps, epochs and tokens, converted once."""

from __future__ import annotations

import dataclasses
import math
from typing import TypeVar

from clozeflow.training.config import DEFAULT_NUM_TRAIN_STEPS, TENTH_OF_RUN, TrainConfig

_Config = TypeVar("_Config", bound=TrainConfig)


def in_steps(config: _Config, *, num_examples: int, seq_len: int) -> _Config:
    """The settings with duration and warm-up in steps, whatever they were given in.

    Args:
        config: The settings.
        num_examples: In the train split.
        seq_len: Tokens in an example.

    Raises:
        UserError: The warm-up is longer than the run.
    """
    if config.num_train_epochs:
        num_steps = math.ceil(config.num_train_epochs * num_examples / config.global_batch_size)
    elif config.num_train_tokens:
        num_steps = math.ceil(config.num_train_tokens / (config.global_batch_size * seq_len))
    else:
        num_steps = config.num_train_steps or DEFAULT_NUM_TRAIN_STEPS
    is_share = config.warmup_steps == TENTH_OF_RUN
    return dataclasses.replace(
        config,
        num_train_steps=num_steps,
        num_train_epochs=0.0,
        num_train_tokens=0,
        warmup_steps=num_steps // 10 if is_share else config.warmup_steps,
    )
