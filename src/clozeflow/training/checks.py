"""What must go together, checked before anything is built."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clozeflow import storage
from clozeflow.artifacts import Artifact
from clozeflow.errors import UserError
from clozeflow.training.config import TrainConfig
from clozeflow.training.devices import LOCAL_TPU

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from clozeflow.training.step import StepMetrics


def num_train_examples(shards: Artifact) -> int:
    """Examples in the train split; 0 if there is none."""
    split = shards.manifest.splits.get("train")
    return split.counts.get("num_examples", 0) if split else 0


def check_inputs(config: TrainConfig, shards: Artifact, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuses shards that are too few for a batch, or that another vocabulary made.

    Raises:
        UserError: With both values.
    """
    num_examples = num_train_examples(shards)
    if config.global_batch_size > num_examples:
        raise UserError(
            "--global-batch-size",
            f"is larger than the train split of {shards.uri}",
            got=f"{config.global_batch_size:,}",
            expected=f"at most {num_examples:,}, the examples that there are",
            fix="Give a smaller --global-batch-size or more data.",
        )
    vocab_size = shards.manifest.properties["vocab_size"]
    if vocab_size != len(tokenizer):
        raise UserError(
            f"tokenizer {tokenizer.name_or_path}",
            f"has another number of ids than {shards.uri} was made with",
            got=f"{len(tokenizer):,}",
            expected=f"{vocab_size:,}",
            fix="Give the tokenizer that the shards were made with.",
        )
    if tokenizer.mask_token_id is None:
        raise UserError(
            f"tokenizer {tokenizer.name_or_path}",
            "has no mask token",
            fix="Make the tokenizer with `clozeflow tokenizer`.",
        )


def check_paths(shards: Artifact, *, tpu_address: str) -> None:
    """Refuses shards of this machine's disk for a TPU that is elsewhere.

    Raises:
        UserError: Such a TPU cannot read them.
    """
    if tpu_address != LOCAL_TPU and not storage.is_remote(shards.uri):
        raise UserError(
            f"--shards {shards.uri}",
            f"is on this machine, where TPU {tpu_address!r} cannot read it",
            expected="a gs:// location",
            fix="Copy the shards to a bucket, or train on the TPU's own machine.",
        )


def check_validation(config: TrainConfig, shards: Artifact) -> None:
    """Refuses validation where there is nothing to validate on.

    Raises:
        UserError: The shards have no validation split.
    """
    split = shards.manifest.splits.get("validation")
    if config.validate_every_steps and not (split and split.counts.get("num_examples")):
        raise UserError(
            "--validate-every-steps",
            f"needs a validation split, and {shards.uri} has none",
            fix="Leave it out, or make the corpus with a --validation-fraction.",
        )


def check_division(config: TrainConfig, num_replicas: int) -> None:
    """Refuses a global batch that replicas and accumulation cannot divide evenly."""
    num_parts = num_replicas * config.gradient_accumulation_steps
    if config.global_batch_size % num_parts:
        raise UserError(
            "--global-batch-size",
            f"cannot be divided among {num_replicas} replicas, each in "
            f"{config.gradient_accumulation_steps} parts",
            got=config.global_batch_size,
            expected=f"a multiple of {num_parts}",
            fix=f"Give --global-batch-size a multiple of {num_parts}.",
        )


def check_finite(metrics: Sequence[StepMetrics], first_step: int) -> None:
    """Refuses a loss or a gradient that is no number: nothing good comes after it.

    Raises:
        UserError: With the step, counted from 1.
    """
    for offset, one in enumerate(metrics):
        if not (math.isfinite(one.loss) and math.isfinite(one.gradient_norm)):
            raise UserError(
                f"step {first_step + offset + 1}",
                "has a loss or a gradient that is no finite number",
                got=f"loss {one.loss}, gradient norm {one.gradient_norm}",
                expected="finite numbers, as in the step before",
                fix="Give a lower --peak-learning-rate or a longer --warmup-steps.",
            )
