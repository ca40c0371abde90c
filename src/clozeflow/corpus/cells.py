"""Tables on disk that are read back by ranges of a hash: the shuffle's storage.

A file holds runs; a run is sorted by a hash and cut into equal cells of the hash's range, each
an Arrow record batch: batch `run * num_cells + cell`. So a range is read by itself, and memory
is bounded by the range.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import IO

import numpy as np
import pyarrow as pa

from clozeflow import storage

Positions = np.ndarray
"""uint64 [num_rows]: hashes by which rows are ordered."""

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def new_writer(sink: IO[bytes], schema: pa.Schema) -> pa.RecordBatchFileWriter:
    """Opens a file of runs."""
    return pa.ipc.new_file(sink, schema, options=_OPTIONS)


def num_ranges(amount: int, per_range: int) -> int:
    """The power of two of equal ranges of a hash that hold at most about `per_range` each."""
    return 1 << max(0, (-(-amount // per_range) - 1).bit_length())


def range_of(positions: Positions, number: int) -> np.ndarray:
    """Which of `number` (a power of two) equal ranges each hash falls into."""
    bits = number.bit_length() - 1
    assert number == 1 << bits, number
    if bits == 0:
        return np.zeros(len(positions), np.int64)
    return (positions >> np.uint64(64 - bits)).astype(np.int64)


def write_run(
    writer: pa.RecordBatchFileWriter, run: pa.Table, positions: Positions, num_cells: int
) -> None:
    """Writes a run.

    Args:
        writer: From `new_writer`.
        run: Rows in the order of their positions.
        positions: uint64 [num_rows].
        num_cells: A power of two; the same for every run of a file.
    """
    run = run.combine_chunks()
    borders = np.searchsorted(range_of(positions, num_cells), np.arange(num_cells + 1))
    empty = pa.RecordBatch.from_pylist([], schema=run.schema)
    for start, end in itertools.pairwise(borders.tolist()):
        batches = run.slice(start, end - start).to_batches()
        writer.write_batch(batches[0] if batches else empty)


def read_range(
    location: str,
    positions_of: Callable[[pa.Table], Positions],
    *,
    index: int,
    num_ranges: int,
    num_cells: int,
) -> Iterator[pa.Table]:
    """The rows of a file whose positions are in one of `num_ranges` equal ranges."""
    per_range = max(1, num_cells // num_ranges)
    first = index * num_cells // num_ranges
    with storage.open_read(location) as file, pa.ipc.open_file(file) as reader:
        for run in range(reader.num_record_batches // num_cells):
            for cell in range(first, first + per_range):
                table = pa.Table.from_batches([reader.get_batch(run * num_cells + cell)])
                if len(table) and num_ranges > num_cells:
                    within = range_of(positions_of(table), num_ranges) == index
                    table = table.filter(pa.array(within))
                if len(table):
                    yield table
