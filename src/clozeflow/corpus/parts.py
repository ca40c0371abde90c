"""The files of a Corpus: Parquet parts of documents in `doc_id` order."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from clozeflow import storage
from clozeflow.corpus import cells, windows
from clozeflow.corpus.shuffle import DOCUMENT_SCHEMA

PART_BYTES = 64 << 20
"""The most text that a part is meant to hold: a reader's share of work."""
ROW_GROUP_BYTES = 4 << 20
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


def plan_parts(split: str, pieces: Sequence[str], num_bytes: int) -> list[Part]:
    """The parts of a split.

    Args:
        split: Its name.
        pieces: Each bucket's file, "" where it holds nothing of the split; the number of buckets
            is a power of two.
        num_bytes: The text in the split.
    """
    num_parts = min(cells.num_ranges(num_bytes, PART_BYTES), len(pieces))
    size = len(pieces) // num_parts
    return [
        Part(
            split=split,
            index=index,
            num_parts=num_parts,
            pieces=tuple(path for path in pieces[index * size : (index + 1) * size] if path),
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


def write_part(
    location: str, groups: Iterable[pa.Table], schema: pa.Schema = DOCUMENT_SCHEMA
) -> None:
    """Writes a part, a row group a table."""
    with (
        storage.atomic_writer(location) as file,
        pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            use_dictionary=["source", "reason"],
            write_page_checksum=True,  # a changed byte is found by whoever reads it
        ) as writer,
    ):
        for group in groups:
            writer.write_table(group, row_group_size=max(1, len(group)))


def row_groups(pieces: Iterable[str]) -> Iterator[pa.Table]:
    """The documents of pieces in tables of about `ROW_GROUP_BYTES` of text."""
    for piece in pieces:
        documents = read_piece(piece)
        start = 0
        for texts in documents.column("text").chunks:
            for part in windows.slices(texts, ROW_GROUP_BYTES):
                yield documents.slice(start, len(part))
                start += len(part)


def text_bytes(documents: pa.Table) -> int:
    """The bytes of the documents' texts in UTF-8."""
    return int(pc.sum(pc.binary_length(documents.column("text"))).as_py() or 0)
