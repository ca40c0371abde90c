"""Reading documents: files cut into segments, segments read as blocks of valid UTF-8."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from clozeflow import storage
from clozeflow.corpus import hub, jsonl, parquet, textfile
from clozeflow.corpus.cleaning import SEPARATOR, Block, block_of, decode_utf8
from clozeflow.corpus.config import CorpusConfig, Documents
from clozeflow.corpus.sources import Format, SourceFile
from clozeflow.errors import UserError

UNIT_BYTES = 32 << 20
"""What a unit of work reads at least: enough that starting one costs nothing."""
_COUNTED_BYTES = 1 << 20
_BLANK_LINES = re.compile(rb"\n(?:[ \t\r\f\v]*\n)+")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Segment:
    """A range of a file: of bytes in plain text, of row groups or shards, else all of it."""

    file: SourceFile
    start: int = 0
    end: int | None = None
    """None: to the end."""


def plan_units(
    files: Sequence[SourceFile], documents: Documents, unit_bytes: int
) -> list[tuple[Segment, ...]]:
    """The work of reading, cut into units of about so many bytes."""
    units: list[tuple[Segment, ...]] = []
    group: list[Segment] = []
    size = 0
    for file in files:
        for segment, num_bytes in _segments(file, documents, unit_bytes):
            if group and size + num_bytes > unit_bytes:
                units.append(tuple(group))
                group, size = [], 0
            group.append(segment)
            size += num_bytes
    return [*units, tuple(group)] if group else units


def read_segment(segment: Segment, config: CorpusConfig) -> Iterator[Block]:
    """The documents of a segment, a block at a time.

    Raises:
        UserError: The file is not what its name says, or has no field of that name, or holds
            bad bytes that are to be refused.
    """
    match segment.file.format:
        case Format.HUB:
            columns = hub.read_shard(segment.file.location, segment.start, config.text_field)
            for column in columns:
                yield _block_of_column(column, config, segment.file.location)
        case Format.PARQUET:
            yield from _read_parquet(segment, config)
        case Format.JSON_LINES:
            yield from _read_json_lines(segment, config)
        case Format.TEXT:
            yield from _read_text(segment, config)


def _segments(
    file: SourceFile, documents: Documents, unit_bytes: int
) -> Iterator[tuple[Segment, int]]:
    """A file's segments, each with its size in bytes."""
    documents = _documents(file, documents)
    if file.format == Format.HUB:
        for index in range(hub.num_shards(file.location)):
            yield Segment(file=file, start=index, end=index + 1), unit_bytes
    elif file.format == Format.PARQUET:
        yield from _row_group_segments(file)
    elif file.num_bytes <= unit_bytes or not textfile.is_divisible(file, documents):
        yield Segment(file=file), file.num_bytes
    else:
        for start in range(0, file.num_bytes, unit_bytes):
            end = min(start + unit_bytes, file.num_bytes)
            yield Segment(file=file, start=start, end=end), end - start


def _documents(file: SourceFile, documents: Documents) -> Documents:
    return Documents.LINE if file.format == Format.JSON_LINES else documents


def _read_text(segment: Segment, config: CorpusConfig) -> Iterator[Block]:
    for _, data, num_bad in textfile.read_blocks(
        segment.file,
        config.documents,
        config.bad_bytes,
        start=segment.start,
        end=segment.end,
    ):
        yield dataclasses.replace(_CUTS[config.documents](data), num_bad_bytes=num_bad)


def _lines(data: bytes) -> Block:
    return Block(data=data if data.endswith(b"\n") else data + b"\n", separator=b"\n")


def _paragraphs(data: bytes) -> Block:
    return Block(data=_BLANK_LINES.sub(SEPARATOR, data) + SEPARATOR)


def _whole(data: bytes) -> Block:
    return Block(data=data + SEPARATOR)


_CUTS = {Documents.LINE: _lines, Documents.PARAGRAPH: _paragraphs, Documents.FILE: _whole}
"""From text to a block of documents, one function a kind of document."""


def _read_json_lines(segment: Segment, config: CorpusConfig) -> Iterator[Block]:
    begin, num_lines = None, 0
    for offset, data, num_bad in textfile.read_blocks(
        segment.file, Documents.LINE, config.bad_bytes, start=segment.start, end=segment.end
    ):
        begin = offset if begin is None else begin
        texts = jsonl.texts(
            data,
            config.text_field,
            where=segment.file.location,
            offset=offset,
            lines_before=functools.partial(_num_lines, segment.file.location, begin, num_lines),
        )
        num_lines += data.count(b"\n")
        block = _block_of_column(texts, config, segment.file.location)
        yield dataclasses.replace(block, num_bad_bytes=block.num_bad_bytes + num_bad)


def _num_lines(location: str, begin: int, num_read: int) -> int:
    """The lines before a place: those before the segment's beginning, and those read since."""
    number, left = num_read, begin
    with storage.open_read(location) as file:
        while left and (piece := file.read(min(left, _COUNTED_BYTES))):
            number += piece.count(b"\n")
            left -= len(piece)
    return number


_MEND_PARQUET = "Check or replace the file."


def _row_group_segments(file: SourceFile) -> Iterator[tuple[Segment, int]]:
    with parquet.opened(file.location, fix=_MEND_PARQUET) as opened:
        metadata = opened.metadata
        sizes = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
    for index, size in enumerate(sizes):
        yield Segment(file=file, start=index, end=index + 1), size


def _read_parquet(segment: Segment, config: CorpusConfig) -> Iterator[Block]:
    file, field = segment.file, config.text_field
    with parquet.opened(file.location, fix=_MEND_PARQUET) as opened:
        if field not in opened.schema_arrow.names:
            raise jsonl.no_field_error(file.location, field, opened.schema_arrow.names)
        group = opened.metadata.row_group(segment.start)
        batches = parquet.batches(
            opened,
            batch_size=_rows_per_block(group.num_rows, group.total_byte_size),
            row_groups=[segment.start],
            columns=[field],
        )
        for batch in batches:
            yield _block_of_column(batch.column(0), config, file.location)


def _rows_per_block(num_rows: int, num_bytes: int) -> int:
    return max(1, textfile.BLOCK_BYTES * num_rows // max(num_bytes, textfile.BLOCK_BYTES))


def _block_of_column(column: Any, config: CorpusConfig, where: str) -> Block:
    """A block of a column of strings or bytes; a missing text is a blank document."""
    try:
        values = column.cast(pa.large_binary()).to_pylist()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        raise UserError(
            where,
            f"its field {config.text_field!r} is no text",
            got=str(column.type),
            fix="Name a field of strings with --text-field.",
        ) from None
    decoded = [decode_utf8(v or b"", bad_bytes=config.bad_bytes, where=where) for v in values]
    return block_of([text for text, _ in decoded], num_bad_bytes=sum(bad for _, bad in decoded))
