"""Files of texts to be answered, and files of answers: text, JSON lines and Parquet.

A row is a mapping with a text in one of its fields; the other fields are kept. Rows are read and
written a batch at a time, so memory does not grow with the file.
"""

from __future__ import annotations

import contextlib
import enum
import io
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from clozeflow import storage
from clozeflow.corpus import parquet
from clozeflow.errors import UserError

Row = dict[str, Any]

ROWS_AT_ONCE = 4096
"""Enough that a batch holds texts of similar lengths, few enough to be held in memory."""


class Format(enum.StrEnum):
    """The kinds of files, by their ending."""

    TEXT = ".txt"
    """One text a line; blank lines are left out."""
    JSON_LINES = ".jsonl"
    PARQUET = ".parquet"


OUTPUT_FORMATS = (Format.JSON_LINES, Format.PARQUET)
"""What rows with fields can be written as."""


def format_of(location: str, *, allowed: Sequence[Format] = tuple(Format)) -> Format:
    """The kind of a file.

    Raises:
        UserError: Its ending is none of the allowed ones.
    """
    for kind in allowed:
        if location.lower().endswith(kind):
            return kind
    raise UserError(
        location,
        "is of no kind that can be used here",
        expected=f"a name that ends in {', '.join(allowed)}",
        fix="Rename it, or convert it.",
    )


def read_rows(location: str, *, text_field: str) -> Iterator[tuple[str, Row]]:
    """Each row with the words that name its place in messages.

    Args:
        location: A file, local or remote.
        text_field: The field with the text; in a text file the one that each line becomes.

    Raises:
        UserError: The file has no rows, is not what its ending says, or a row has no text there.
    """
    is_empty = True
    for place, row in _READERS[format_of(location)](location, text_field):
        is_empty = False
        if not isinstance(row.get(text_field), str):
            raise UserError(
                place,
                f"has no text in the field {text_field!r}",
                got=row[text_field] if text_field in row else f"the fields {', '.join(row)}",
                fix="Name the field that holds the text with --text-field.",
            )
        yield place, row
    if is_empty:
        raise UserError(location, "holds no texts", fix="Give a file with at least one.")


def write_rows(location: str, batches: Iterable[Sequence[Row]]) -> int:
    """Writes all rows as the file's ending says, whole or not at all; returns their number."""
    kind = format_of(location, allowed=OUTPUT_FORMATS)
    with storage.atomic_writer(location) as file:
        return (
            _write_parquet(file, batches) if kind == Format.PARQUET else _write_json(file, batches)
        )


def batched(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The rows in lists of up to `ROWS_AT_ONCE`."""
    rows = iter(rows)
    while batch := list(itertools.islice(rows, ROWS_AT_ONCE)):
        yield batch


def _read_text(location: str, text_field: str) -> Iterator[tuple[str, Row]]:
    for place, line in _lines(location):
        yield place, {text_field: line}


def _read_json_lines(location: str, text_field: str) -> Iterator[tuple[str, Row]]:
    for place, line in _lines(location):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UserError(place, f"is no JSON: {error}", fix="Mend the line.") from None
        if not isinstance(row, dict):
            raise UserError(
                place, "is no JSON object", got=type(row).__name__, fix="Write one object a line."
            )
        yield place, row


def _lines(location: str) -> Iterator[tuple[str, str]]:
    r"""The lines that are not blank, ended by `\n` alone."""
    with storage.open_read(location) as file:
        try:
            text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="\n")
            for number, line in enumerate(text, 1):
                if line.strip():
                    yield f"{location}, line {number:,}", line.rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise UserError(
                location, f"is no UTF-8: {error.reason}", fix="Convert the file to UTF-8."
            ) from None


def _read_parquet(location: str, text_field: str) -> Iterator[tuple[str, Row]]:
    with parquet.opened(location, fix="Check or replace the file.") as file:
        number = 0
        for batch in parquet.batches(file, batch_size=ROWS_AT_ONCE):
            for row in batch.to_pylist():
                number += 1
                yield f"{location}, row {number:,}", row


def _write_json(file: IO[bytes], batches: Iterable[Sequence[Row]]) -> int:
    count = 0
    for batch in batches:
        for row in batch:
            file.write(json.dumps(row, ensure_ascii=False, default=str).encode() + b"\n")
        count += len(batch)
    return count


def _write_parquet(file: IO[bytes], batches: Iterable[Sequence[Row]]) -> int:
    """The columns are those of the first batch."""
    count, schema = 0, None
    with contextlib.ExitStack() as stack:
        for batch in batches:
            table = _table(batch, schema, first=count + 1)
            if not schema:
                schema = table.schema
                writer = stack.enter_context(pq.ParquetWriter(file, schema, compression="zstd"))
            writer.write_table(table)
            count += len(batch)
    return count


def _table(batch: Sequence[Row], schema: pa.Schema | None, *, first: int) -> pa.Table:
    try:
        return pa.Table.from_pylist(list(batch), schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise UserError(
            f"row {first:,} or one behind it",
            f"does not fit the columns before it: {error}",
            fix="Write to a .jsonl file: its rows may differ.",
        ) from None


_READERS: Mapping[Format, Callable[[str, str], Iterator[tuple[str, Row]]]] = {
    Format.TEXT: _read_text,
    Format.JSON_LINES: _read_json_lines,
    Format.PARQUET: _read_parquet,
}
