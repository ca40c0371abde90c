"""Parquet files, opened so that no thread of Arrow's outlives an error.

With read-ahead, Arrow fetches row groups in threads of its own; where the program ends on an error
while one still runs, C++ aborts the process on top of the message.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from clozeflow import storage
from clozeflow.errors import UserError


@contextlib.contextmanager
def opened(location: str, *, fix: str) -> Iterator[pq.ParquetFile]:
    """A Parquet file, closed again when the block ends; pages with checksums are checked.

    Raises:
        UserError: It is damaged, or no Parquet at all, whenever that shows in the block.
    """
    with (
        errors(location, fix=fix),
        storage.open_read(location) as stream,
        open_stream(stream) as file,
    ):
        yield file


def open_stream(stream: IO[bytes]) -> pq.ParquetFile:
    """A Parquet file in a stream."""
    return pq.ParquetFile(stream, pre_buffer=False, page_checksum_verification=True)


def batches(
    file: pq.ParquetFile,
    *,
    batch_size: int,
    columns: Sequence[str] | None = None,
    row_groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The file's rows, so many at a time."""
    return file.iter_batches(
        batch_size=batch_size,
        columns=None if columns is None else list(columns),
        row_groups=row_groups,
        use_threads=False,
    )


@contextlib.contextmanager
def errors(location: str, *, fix: str) -> Iterator[None]:
    """Arrow's errors in the block as ours."""
    try:
        yield
    except (pa.ArrowException, UnicodeError, OSError) as error:  # a column's name may be no text
        words = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise UserError(location, f"cannot be read as Parquet: {words}", fix=fix) from None
