"""The files of a Corpus: Parquet parts of documents in `doc_id` order."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from clozeflow import storage
from clozeflow.corpus.shuffle import DOCUMENT_SCHEMA

PART_BYTES = 64 << 20
"""The most text that a part is meant to hold: a reader's share of work."""
ROW_GROUP_BYTES = 8 << 20
"""What a reader of a part holds at once."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """A part to be written, from pieces whose documents follow each other."""

    split: str
    index: int
    num_parts: int
    pieces: tuple[str, ...]
    """Arrow files, in the order of their ranges of hashes."""

    @property
    def path(self) -> str:
        """The part's place in the artifact."""
        return f"{self.split}/part-{self.index:05d}-of-{self.num_parts:05d}.parquet"


def num_ranges(num_bytes: int, bytes_per_range: int) -> int:
    """The power of two of equal ranges of hashes that hold at most about so many bytes each."""
    return 1 << max(0, (-(-num_bytes // bytes_per_range) - 1).bit_length())


def plan_parts(split: str, pieces: Sequence[tuple[int, str]], *, num_bytes: int) -> list[Part]:
    """The parts of a split.

    Args:
        split: Its name.
        pieces: Each bucket's number and file, "" where it holds nothing of the split; the number
            of buckets is a power of two.
        num_bytes: The text in the split.
    """
    num_buckets = len(pieces)
    num_parts = min(num_ranges(num_bytes, PART_BYTES), num_buckets)
    per_part = num_buckets // num_parts
    return [
        Part(
            split=split,
            index=index,
            num_parts=num_parts,
            pieces=tuple(
                path for _, path in pieces[index * per_part : (index + 1) * per_part] if path
            ),
        )
        for index in range(num_parts)
    ]


def write_piece(location: str, documents: pa.Table) -> None:
    """Writes documents of a bucket, to be read once more."""
    with storage.atomic_writer(location) as file, pa.ipc.new_file(file, documents.schema) as writer:
        writer.write_table(documents)


def read_piece(location: str) -> pa.Table:
    """Reads what `write_piece` wrote."""
    with storage.open_read(location) as file:
        return pa.ipc.open_file(file).read_all()


def write_part(location: str, part: Part) -> Iterator[pa.Table]:
    """Writes a part; each row group is also handed out, for whoever measures it."""
    with (
        storage.atomic_writer(location) as file,
        pq.ParquetWriter(
            file, DOCUMENT_SCHEMA, compression="zstd", use_dictionary=["source"]
        ) as writer,
    ):
        for piece in part.pieces:
            for group in _row_groups(read_piece(piece)):
                writer.write_table(group, row_group_size=len(group))
                yield group


def text_bytes(documents: pa.Table) -> int:
    """The bytes of the documents' texts in UTF-8."""
    return int(pc.sum(pc.binary_length(documents.column("text"))).as_py() or 0)


def _row_groups(documents: pa.Table) -> Iterator[pa.Table]:
    """Slices that hold about `ROW_GROUP_BYTES` of text, and at least one document."""
    ends = np.cumsum(pc.binary_length(documents.column("text")).to_numpy(), dtype=np.int64)
    start = 0
    while start < len(documents):
        done = ends[start - 1] if start else 0
        end = int(np.searchsorted(ends, done + ROW_GROUP_BYTES, side="right"))
        end = max(end, start + 1)
        yield documents.slice(start, end - start)
        start = end
