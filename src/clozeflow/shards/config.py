"""Settings of the shard stage."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable
from typing import ClassVar

from clozeflow.config import StageConfig
from clozeflow.engine import WORKER_SETTINGS, Engine, check_reach, check_workers


class Packing(enum.StrEnum):
    """How documents are cut into rows."""

    DOCUMENTS = "documents"
    """`<s>` … `</s>` around each row, `</s>` between the documents in it."""
    STREAM = "stream"
    """`<s>` … `</s>` around each document, and the stream of all of them cut anywhere: what the
    Hugging Face scripts make (they drop the last row; here it is padded)."""


class Compression(enum.StrEnum):
    """How shards are compressed."""

    NONE = "none"
    GZIP = "gzip"
    """About a third as large and slower to read; the names end in `.tfrecord.gz`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardConfig(StageConfig):
    """From a corpus and a tokenizer to TFRecord shards of fixed-length examples."""

    DOES_NOT_SHAPE_RESULT: ClassVar[frozenset[str]] = frozenset({"adopt", *WORKER_SETTINGS})

    seq_len: int = 128
    """Tokens in an example, `<s>` and `</s>` included."""
    packing: Packing = Packing.DOCUMENTS
    """How documents are cut into rows."""
    examples_per_shard: int = 8192
    """The most examples that one file holds."""
    compression: Compression = Compression.NONE
    """How the files are compressed."""
    seed: int = 0
    """Chooses the order of examples within a unit of work."""
    adopt: str = ""
    """A folder of TFRecords made by others, to be read, checked and given a manifest instead of
    making new ones; no corpus is given then."""
    num_workers: int = 0
    """Processes; 0 means one a processor. The result does not depend on it."""
    engine: Engine = Engine.PROCESS_POOL
    """What runs the units of work: processes of this machine, or an Apache Beam pipeline."""
    beam_args: str = ""
    """Options of the Beam pipeline, as on a command line: `--runner=DataflowRunner …`."""

    def validate(self) -> None:
        """Checks ranges."""
        self.check("seq_len", self.seq_len >= 8, "at least 8")
        self.check("examples_per_shard", self.examples_per_shard >= 1, "at least 1")
        check_workers(self)

    def check_locations(self, locations: Iterable[str]) -> None:
        """Checks that workers elsewhere can reach what they read and write."""
        check_reach(self, [*locations, *filter(None, [self.adopt])])
