"""Settings of the train stage."""

from __future__ import annotations

import dataclasses
import enum
from typing import ClassVar

from clozeflow.config import StageConfig


class Preset(enum.StrEnum):
    """RoBERTa-style encoders by size: layers x hidden size."""

    TINY = "tiny"
    """2 x 128."""
    MINI = "mini"
    """4 x 256."""
    SMALL = "small"
    """4 x 512."""
    BASE = "base"
    """12 x 768, as roberta-base."""
    LARGE = "large"
    """24 x 1024, as roberta-large."""


class Distribution(enum.StrEnum):
    """Where the step runs. (Not called `strategy`: that would override a field of a CustomJob.)"""

    AUTO = "auto"
    """A TPU if there is one, else every GPU, else the CPU."""
    ONE_DEVICE = "one_device"
    MIRRORED = "mirrored"
    """Every GPU, or every logical CPU device, of this machine."""
    TPU = "tpu"


class Precision(enum.StrEnum):
    """Arithmetic of the layers; loss and softmax are float32 always."""

    AUTO = "auto"
    """bfloat16 on TPU, float32 elsewhere."""
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainConfig(StageConfig):
    """From shards to a masked language model."""

    DOES_NOT_SHAPE_RESULT: ClassVar[frozenset[str]] = frozenset(
        {"distribution", "checkpoint_every_steps", "log_every_steps", "steps_per_call"}
    )

    preset: Preset = Preset.TINY
    """The encoder's size."""
    num_train_steps: int = 400
    """Optimizer steps."""
    global_batch_size: int = 64
    """Examples in a step, over all replicas."""
    peak_learning_rate: float = 2e-3
    """The rate at the end of the warm-up; it falls linearly to 0 at the last step."""
    warmup_steps: int = 40
    """Steps over which the rate rises linearly from 0."""
    weight_decay: float = 0.01
    """Decoupled decay of AdamW; biases and layer norms are left out."""
    max_gradient_norm: float = 1.0
    """Gradients are scaled down to this global norm."""
    masking_rate: float = 0.15
    """The share of an example's tokens that the model must restore (0 to 1)."""
    dropout_rate: float = 0.1
    """Dropout of hidden states and of attention (0 to 1)."""
    seed: int = 0
    """Weights, order of examples, masks and dropout are functions of it."""
    precision: Precision = Precision.AUTO
    """Arithmetic of the layers."""
    distribution: Distribution = Distribution.AUTO
    """Where the step runs."""
    steps_per_call: int = 20
    """Steps that run on the device before the host looks at them."""
    log_every_steps: int = 20
    """Steps between two lines of `training.jsonl`."""
    checkpoint_every_steps: int = 100
    """Steps between two checkpoints."""

    def validate(self) -> None:
        """Checks ranges."""
        for name in ("num_train_steps", "global_batch_size", "steps_per_call"):
            self.check(name, getattr(self, name) >= 1, "at least 1")
        for name in ("log_every_steps", "checkpoint_every_steps"):
            self.check(name, getattr(self, name) >= 1, "at least 1")
        self.check("peak_learning_rate", 0 < self.peak_learning_rate < 1, "between 0 and 1")
        self.check(
            "warmup_steps",
            0 <= self.warmup_steps < self.num_train_steps,
            "from 0 to below --num-train-steps",
        )
        self.check("weight_decay", self.weight_decay >= 0, "0 or more")
        self.check("max_gradient_norm", self.max_gradient_norm > 0, "above 0")
        self.check("masking_rate", 0 < self.masking_rate < 1, "between 0 and 1")
        self.check("dropout_rate", 0 <= self.dropout_rate < 1, "from 0 to below 1")
