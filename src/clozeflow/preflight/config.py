"""Settings of the preflight stage: those of training, and where it would run."""

from __future__ import annotations

import dataclasses
import enum
from typing import ClassVar

from clozeflow.slices import Slice, find_slice
from clozeflow.training.config import TrainConfig


class Preflight(enum.StrEnum):
    """Whether there is one."""

    ON = "on"
    OFF = "off"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreflightConfig(TrainConfig):
    """Whether a training step fits a TPU slice, how fast it may be, and what the run may cost."""

    DOES_NOT_SHAPE_RESULT: ClassVar[frozenset[str]] = frozenset()

    tpu: str = ""
    """The slice that would train, such as `v5e-4`; empty where no TPU does: then there is nothing
    to find out."""
    preflight: Preflight = Preflight.ON
    """`off` finds nothing out, and lets the run go on."""
    per_replica_batch_size: int = 0
    """Examples that a core works on in a step; 0 for its share of `global_batch_size`."""
    seq_len: int = 128
    """Tokens in an example, where no shards are given."""
    vocab_size: int = 8192
    """Ids of the tokenizer, where none is given."""
    usd_per_chip_hour: float = 0.0
    """The price of a chip; 0 where it is not known."""
    require: bool = False
    """An answer that cannot be had is an error; otherwise it is a warning."""
    search: bool = False
    """Look for the fastest settings that fit, for the same global batch."""
    time_limit_seconds: int = 1800
    """For one compilation: a large model takes the compiler minutes."""

    def validate(self) -> None:
        """Checks ranges, and that the slice exists."""
        super().validate()
        if self.tpu:
            find_slice(self.tpu)
        self.check("per_replica_batch_size", self.per_replica_batch_size >= 0, "0 or more")
        self.check("seq_len", self.seq_len >= 4, "at least 4")
        self.check("vocab_size", self.vocab_size >= 8, "at least 8")
        self.check("usd_per_chip_hour", self.usd_per_chip_hour >= 0, "0 or more")
        self.check("time_limit_seconds", self.time_limit_seconds >= 1, "at least 1")

    def has_sources(self) -> bool:
        """The compiler is one, where there is something to compile."""
        return super().has_sources() or self.is_asked_for()

    def is_asked_for(self) -> bool:
        """Whether there is anything to find out."""
        return bool(self.tpu) and self.preflight is Preflight.ON

    def training(self) -> TrainConfig:
        """Those of training alone."""
        names = [field.name for field in dataclasses.fields(TrainConfig)]
        return TrainConfig(**{name: getattr(self, name) for name in names})

    def slice(self) -> Slice:
        """The slice that would train."""
        return find_slice(self.tpu)
