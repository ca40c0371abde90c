"""Settings of the evaluate stage and of prediction."""

from __future__ import annotations

import dataclasses
import enum
from typing import ClassVar

from clozeflow.config import StageConfig
from clozeflow.evaluation.gate import parse_requirements
from clozeflow.evaluation.masks import has_mask


class Shown(enum.StrEnum):
    """What a model sees in the place of a token that it is asked for."""

    TRAINING = "training"
    """As in training: the mask in 80 %, another token in 10 %, the token itself in 10 %."""
    MASK = "mask"
    """The mask, always: the harder questions, as `clozeflow predict` asks them."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateConfig(StageConfig):
    """From a model and held-out shards to figures, answers and a verdict."""

    DOES_NOT_SHAPE_RESULT: ClassVar[frozenset[str]] = frozenset({"batch_size"})

    split: str = "validation"
    """The split that the questions are made from."""
    masking_rate: float = 0.15
    """The share of an example's tokens that the model must restore (0 to 1)."""
    shown: Shown = Shown.TRAINING
    """What a model sees in the place of a token that it is asked for."""
    seed: int = 0
    """Chooses which tokens are asked for: the same for every model."""
    batch_size: int = 64
    """Examples in a batch; the figures do not depend on it."""
    prompts: tuple[str, ...] = ()
    """Texts with `<mask>` in them, answered in the report; by default some of the split's own."""
    top_k: int = 5
    """Answers to each prompt."""
    require: tuple[str, ...] = ()
    """Thresholds, for example `masked_accuracy>=0.35`: the model is blessed if all of them hold,
    and never where none is set."""

    def validate(self) -> None:
        """Checks ranges."""
        splits = ("train", "validation", "test")
        self.check("split", self.split in splits, f"one of {', '.join(splits)}")
        self.check("masking_rate", 0 < self.masking_rate < 1, "between 0 and 1")
        self.check("batch_size", self.batch_size >= 1, "at least 1")
        self.check("top_k", self.top_k >= 1, "at least 1")
        parse_requirements(self.require)
        self.check("prompts", all(map(has_mask, self.prompts)), "texts with <mask> in each")
