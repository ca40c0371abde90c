"""Settings of the train stage."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, ClassVar

from clozeflow.config import StageConfig

DEFAULT_NUM_TRAIN_STEPS = 400
"""Where no duration is given."""

TENTH_OF_RUN = -1
"""As `warmup_steps`."""


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


class MaskingUnit(enum.StrEnum):
    """What is masked together."""

    TOKEN = "token"
    WHOLE_WORD = "whole_word"
    """All pieces of a word."""
    SPAN = "span"
    """Tokens in a row, of geometrically distributed number."""
    NGRAM = "ngram"
    """Tokens in a row, up to a number; n of them with a probability in proportion to 1/n."""


class OptimizerName(enum.StrEnum):
    """How gradients change weights."""

    ADAMW = "adamw"
    LAMB = "lamb"
    """For batches of thousands of examples."""
    LION = "lion"
    """Half of AdamW's memory; wants a rate 3 to 10 times smaller."""


class ScheduleName(enum.StrEnum):
    """How the learning rate goes on after its linear rise over the warm-up."""

    LINEAR = "linear"
    """Down to 0 at the end."""
    COSINE = "cosine"
    """Down to 0 along half a cosine."""
    WSD = "wsd"
    """Flat, and down to 0 over the last share of the run."""
    INVERSE_ROOT = "inverse_root"
    """As one over the root of the step: knows no end."""


class Recompute(enum.StrEnum):
    """What the backward pass computes again instead of keeping it."""

    NONE = "none"
    LAYERS = "layers"
    """Each encoder layer: a third more work, and memory for one layer's insides."""


class Compiler(enum.StrEnum):
    """What compiles the step on CPU and GPU (a TPU's is always XLA)."""

    NONE = "none"
    XLA = "xla"
    """Its dropout draws other masks, as good as those without it."""


class Keep(enum.StrEnum):
    """Which weights become the model."""

    LAST = "last"
    """Those after the last step."""
    BEST = "best"
    """Those with the lowest validation loss."""


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
        {
            "gradient_accumulation_steps",
            "recompute",
            "distribution",
            "tpu_name",
            "steps_per_call",
            "log_every_steps",
            "checkpoint_every_steps",
            "keep_checkpoints",
            "profile_steps",
            "push_to_hub",
            "fork",
        }
    )

    preset: Preset = Preset.TINY
    """The encoder's size, in layers x hidden size: tiny 2 x 128, mini 4 x 256, small 4 x 512, base
    12 x 768, large 24 x 1024."""
    model_config: str = ""
    """In place of a preset: a `config.json`, its folder, or a model's name on the Hub. Vocabulary,
    positions and dropout are set to what this run needs."""
    init_from: str = ""
    """Go on from a model's weights: its folder, or its name on the Hub. Its tokenizer must be the
    one that the shards were made with."""
    num_train_steps: int = 0
    """Optimizer steps. Of the three durations one is given, or none: then it is 400 steps."""
    num_train_epochs: float = 0.0
    """In place of steps: how many times every example is used."""
    num_train_tokens: int = 0
    """In place of steps: how many tokens are used, padding included."""
    global_batch_size: int = 64
    """Examples in a step, over all replicas."""
    gradient_accumulation_steps: int = 1
    """Parts that a replica's examples are worked through in, one after the other, for less
    memory: the step is the same."""
    optimizer: OptimizerName = OptimizerName.ADAMW
    """How gradients change weights."""
    schedule: ScheduleName = ScheduleName.LINEAR
    """How the learning rate goes on after the warm-up."""
    peak_learning_rate: float = 2e-3
    """The rate at the end of the warm-up."""
    warmup_steps: int = TENTH_OF_RUN
    """Steps over which the rate rises linearly from 0; -1 for a tenth of the run."""
    decay_share: float = 0.2
    """The share of the run over which `wsd` comes down (0 to 1)."""
    weight_decay: float = 0.01
    """Decoupled decay; biases and layer norms are left out."""
    max_gradient_norm: float = 1.0
    """Gradients are scaled down to this global norm."""
    masking_unit: MaskingUnit = MaskingUnit.TOKEN
    """What is masked together."""
    masking_rate: float = 0.15
    """The share of an example's tokens that the model must restore (0 to 1)."""
    final_masking_rate: float = 0.0
    """The rate at the last step, reached linearly; 0 means that the rate does not change."""
    mask_share: float = 0.8
    """Of the masked tokens, the share that the model sees as `<mask>` (0 to 1)."""
    random_share: float = 0.1
    """Of the masked tokens, the share that it sees as another token; the rest is left as it is."""
    mean_span_length: float = 3.0
    """Tokens in a span, on average."""
    max_ngram_length: int = 3
    """The most tokens in an n-gram."""
    dropout_rate: float = 0.1
    """Dropout of hidden states and of attention (0 to 1)."""
    seed: int = 0
    """Weights, order of examples, masks and dropout are functions of it."""
    precision: Precision = Precision.AUTO
    """Arithmetic of the layers."""
    recompute: Recompute = Recompute.NONE
    """What the backward pass computes again instead of keeping it."""
    compiler: Compiler = Compiler.NONE
    """What compiles the step on CPU and GPU."""
    distribution: Distribution = Distribution.AUTO
    """Where the step runs."""
    tpu_name: str = ""
    """Name or address of a TPU elsewhere; empty for one that is part of this machine."""
    steps_per_call: int = 20
    """Steps that run on the device before the host looks at them."""
    log_every_steps: int = 20
    """Steps between two lines of `training.jsonl`."""
    checkpoint_every_steps: int = 100
    """Steps between two checkpoints."""
    keep_checkpoints: int = 2
    """Checkpoints that are kept until the run has ended."""
    validate_every_steps: int = 0
    """Steps between two validations, on the same masks each time; 0 for none."""
    keep: Keep = Keep.LAST
    """Which weights become the model."""
    early_stopping_patience: int = 0
    """Stop after so many validations in a row without a new best; 0 for never."""
    profile_steps: str = ""
    """As `100:105`: TensorFlow's profiler records these steps for TensorBoard."""
    push_to_hub: str = ""
    """A repository on the Hub that gets the model at each checkpoint, in the background. The token
    is read from the environment variable `HF_TOKEN`."""
    fork: bool = False
    """Go on from unfinished work that was begun with other settings."""

    def validate(self) -> None:
        """Checks ranges."""
        self._check_durations()
        for name in ("global_batch_size", "gradient_accumulation_steps", "steps_per_call"):
            self.check(name, getattr(self, name) >= 1, "at least 1")
        for name in ("log_every_steps", "checkpoint_every_steps", "keep_checkpoints"):
            self.check(name, getattr(self, name) >= 1, "at least 1")
        self.check("peak_learning_rate", 0 < self.peak_learning_rate < 1, "between 0 and 1")
        self.check("decay_share", 0 < self.decay_share <= 1, "above 0, up to 1")
        self.check("weight_decay", self.weight_decay >= 0, "0 or more")
        self.check("max_gradient_norm", self.max_gradient_norm > 0, "above 0")
        self.check("dropout_rate", 0 <= self.dropout_rate < 1, "from 0 to below 1")
        self._check_masking()
        self._check_validation()
        self.profiled()
        self.check_one(("model_config", "init_from"))

    def shaping_settings(self) -> dict[str, Any]:
        """See `StageConfig`; validation shapes the result only where it chooses weights."""
        settings = super().shaping_settings()
        if self.keep is Keep.LAST and not self.early_stopping_patience:
            del settings["validate_every_steps"]
        return settings

    def has_sources(self) -> bool:
        """Whether a configuration or weights come from outside."""
        return bool(self.model_config or self.init_from)

    def profiled(self) -> range:
        """The steps to profile, counted from 1; empty if none are asked for."""
        if not self.profile_steps:
            return range(0)
        first, _, last = self.profile_steps.partition(":")
        is_valid = first.isdigit() and last.isdigit() and 1 <= int(first) <= int(last)
        self.check("profile_steps", is_valid, "two steps such as 100:105")
        return range(int(first), int(last) + 1)

    def _check_validation(self) -> None:
        for name in ("validate_every_steps", "early_stopping_patience"):
            self.check(name, getattr(self, name) >= 0, "0 or more")
        needs_it = self.keep is Keep.BEST or self.early_stopping_patience > 0
        if needs_it and not self.validate_every_steps:
            self.check("validate_every_steps", False, "above 0 where its result is used")

    def _check_durations(self) -> None:
        names = ("num_train_steps", "num_train_epochs", "num_train_tokens")
        for name in names:
            self.check(name, getattr(self, name) >= 0, "0 or more")
        self.check_one(names)
        given = [name for name in names if getattr(self, name)]
        self.check("warmup_steps", self.warmup_steps >= TENTH_OF_RUN, "0 or more, or -1")
        if given in ([], ["num_train_steps"]):
            num_steps = self.num_train_steps or DEFAULT_NUM_TRAIN_STEPS
            self.check(
                "warmup_steps", self.warmup_steps < num_steps, f"below the {num_steps} steps"
            )

    def _check_masking(self) -> None:
        self.check("masking_rate", 0 < self.masking_rate < 1, "between 0 and 1")
        self.check("final_masking_rate", 0 <= self.final_masking_rate < 1, "from 0 to below 1")
        self.check("mask_share", 0 <= self.mask_share <= 1, "from 0 to 1")
        self.check(
            "random_share",
            0 <= self.random_share <= 1 - self.mask_share + 1e-9,
            "from 0 to what --mask-share leaves",
        )
        self.check("max_ngram_length", self.max_ngram_length >= 1, "at least 1")
        self.check("mean_span_length", self.mean_span_length >= 1, "at least 1")
