"""Settings of the shard stage."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from clozeflow.config import StageConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardConfig(StageConfig):
    """From a corpus and a tokenizer to TFRecord shards of fixed-length examples."""

    DOES_NOT_SHAPE_RESULT: ClassVar[frozenset[str]] = frozenset({"num_workers"})

    seq_len: int = 128
    """Tokens in an example, `<s>` and `</s>` included."""
    examples_per_shard: int = 8192
    """The most examples that one file holds."""
    seed: int = 0
    """Chooses the order of examples within a unit of work."""
    num_workers: int = 0
    """Processes; 0 means one a processor. The result does not depend on it."""

    def validate(self) -> None:
        """Checks ranges."""
        self.check("seq_len", self.seq_len >= 8, "at least 8")
        self.check("examples_per_shard", self.examples_per_shard >= 1, "at least 1")
        self.check("num_workers", self.num_workers >= 0, "0 or more")
