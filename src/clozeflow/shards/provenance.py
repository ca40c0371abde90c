"""Which source each token of a held-out row comes from: a small Parquet file beside each shard.

A shard is rows of token ids and nothing else, as others read them. What an evaluation needs to tell
one source from another stands in `sources/<split>/shard-….parquet`: a row there is a run of tokens
of one source, with the columns

    row      the example's number in its shard, from 0
    end      the position in the example before which the run ends; it begins where the one before
             ends
    source   the name that the corpus gave the source

The train split has no such files: they would grow with the corpus, and nobody is asked about it.

Shapes: N rows, M runs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from clozeflow import storage
from clozeflow.artifacts import Artifact, FileEntry
from clozeflow.shards import arrow, fetch
from clozeflow.shards.packing import Packer, Rows

FOLDER = "sources"
ENDING = ".parquet"


def is_kept(split: str) -> bool:
    """Whether the sources of this split's tokens are written down."""
    return split != "train"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Runs:
    """Stretches of examples that come from one source each, in the order of rows and positions."""

    rows: np.ndarray
    """int32 [M]."""
    ends: np.ndarray
    """int32 [M]."""
    sources: np.ndarray
    """int32 [M]: indices of `names`."""
    names: Sequence[str]

    def source_at(self, rows: np.ndarray, positions: np.ndarray, *, seq_len: int) -> np.ndarray:
        """The index in `names` of the source of each of these positions."""
        width = seq_len + 1
        places = self.rows.astype(np.int64) * width + self.ends
        asked = np.asarray(rows, np.int64) * width + positions
        return self.sources[np.searchsorted(places, asked, side="right")]

    @property
    def num_tokens(self) -> np.ndarray:
        """int64 [names]: how many places each source has, the special ones around them too."""
        begins = np.where(np.diff(self.rows, prepend=-1) == 0, np.roll(self.ends, 1), 0)
        weights = (self.ends - begins).astype(np.float64)
        return np.bincount(self.sources, weights, len(self.names)).astype(np.int64)


class Stream:
    """The sources of a stream of documents (see `packing`), as it is put together."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self._sources: list[np.ndarray] = []
        self._lengths: list[np.ndarray] = []
        self.num_ids = 0

    def add(self, sources: pa.StringArray, lengths: np.ndarray) -> None:
        """Puts documents of these sources at the end; `lengths` are theirs in the stream."""
        encoded = sources.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        known = np.array([self._index.setdefault(n, len(self._index)) for n in names], np.int32)
        self._sources.append(known[arrow.numbers(encoded.indices)][lengths > 0])
        self._lengths.append(lengths[lengths > 0])
        self.num_ids += int(lengths.sum())

    def tail(self, num_ids: int) -> list[tuple[str, int]]:
        """The sources of the last ids, and how many ids of each follow each other."""
        sources, ends, names = *self._runs(), list(self._index)
        first = int(np.searchsorted(ends, self.num_ids - num_ids, side="right"))
        lengths = np.diff(ends[first:], prepend=self.num_ids - num_ids)
        return [(names[s], n) for s, n in zip(sources[first:], lengths.tolist(), strict=True)]

    def runs(self, rows: Rows, packer: Packer) -> Runs:
        """The runs of rows that were cut from this stream."""
        sources, ends = self._runs()
        room = packer.seq_len - 2 * packer.num_put_around
        stops = np.minimum(rows.starts + room, self.num_ids)
        first = np.searchsorted(ends, rows.starts, side="right")
        counts = np.searchsorted(ends, stops - 1, side="right") - first + 1
        row = np.repeat(np.arange(len(rows)), counts)
        # The runs of a row follow each other: counted from its first one.
        run = np.arange(len(row)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
        end = np.minimum(ends[run], stops[row]) - rows.starts[row] + packer.num_put_around
        return Runs(rows=row, ends=end, sources=sources[run], names=list(self._index))

    def _runs(self) -> tuple[np.ndarray, np.ndarray]:
        """int32 [M] sources and int64 [M] ends, neighbours of one source put together."""
        sources = np.concatenate([np.empty(0, np.int32), *self._sources])
        ends = np.cumsum(np.concatenate([np.empty(0, np.int64), *self._lengths]))
        is_last = np.append(sources[1:] != sources[:-1], True)[: len(sources)]
        return sources[is_last], ends[is_last]


def write_beside(
    files: Sequence[dict[str, Any]], rows: Rows, stream: Stream, packer: Packer
) -> None:
    """Writes the sources of the rows of each file that `write_shards` made of them.

    Args:
        files: What `write_shards` returned; each gets `sources`, the location of its own.
        rows: All their rows, in order.
        stream: What they were cut from.
        packer: What cut them.
    """
    start = 0
    for file in files:
        stop = start + file["counts"]["num_examples"]
        file["sources"] = file["location"] + ENDING
        _write(file["sources"], stream.runs(rows.take(slice(start, stop)), packer))
        start = stop


def path_of(shard: str) -> str:
    """Where in the artifact the sources of a shard are, by the shard's own path."""
    return f"{FOLDER}/{shard.partition('.tfrecord')[0]}{ENDING}"


def read_runs(shards: Artifact, shard: FileEntry) -> Runs | None:
    """The sources of a shard's rows, or None where they were not written down.

    Raises:
        UserError: The file is not what the manifest says.
    """
    path = path_of(shard.path)
    entry = next((file for file in shards.manifest.files if file.path == path), None)
    if not entry:
        return None
    content = storage.read_bytes(shards.path(path))
    if hashlib.sha256(content).hexdigest() != entry.sha256:
        raise fetch.damaged(shards.path(path), "has other content (SHA-256)")
    table = pq.read_table(io.BytesIO(content)).combine_chunks()
    encoded = table.column("source").combine_chunks()
    return Runs(
        rows=arrow.numbers(table.column("row").chunk(0)),
        ends=arrow.numbers(table.column("end").chunk(0)),
        sources=arrow.numbers(encoded.indices),
        names=encoded.dictionary.to_pylist(),
    )


def _write(location: str, runs: Runs) -> None:
    table = pa.table(
        {
            "row": arrow.int32s(runs.rows),
            "end": arrow.int32s(runs.ends),
            "source": pa.DictionaryArray.from_arrays(
                arrow.int32s(runs.sources), arrow.strings(runs.names)
            ),
        }
    )
    with storage.atomic_writer(location) as file:
        pq.write_table(
            table,
            file,
            row_group_size=max(1, len(table)),
            compression="zstd",
            write_page_checksum=True,
        )
