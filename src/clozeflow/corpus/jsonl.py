"""The texts of JSON lines: Arrow's parser for all that is regular, Python's for the rest."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.json

from clozeflow.errors import UserError


def texts(
    data: bytes,
    field: str,
    *,
    where: str,
    offset: int = 0,
    lines_before: Callable[[], int] = lambda: 0,
) -> pa.ChunkedArray | pa.Array:
    """The field of each line of a block, as strings; null where it is missing or null.

    Args:
        data: Whole lines of JSON objects, valid UTF-8.
        field: The field's name.
        where: The file, for messages.
        offset: The block's place in the (decompressed) file; at 0 the field must be there.
        lines_before: How many lines the file has before the block: asked for by messages alone.

    Raises:
        UserError: A line is no JSON object, or the field is no string, or is not there.
    """
    if not data.strip():
        return pa.array([], pa.string())
    if offset == 0:
        _check_first(data, field, where)
    try:
        return _parse_fast(data, field)
    except pa.ArrowInvalid:
        return _parse_line_by_line(data, field, where, lines_before)


def no_field_error(where: str, field: str, there: Sequence[str]) -> UserError:
    """A file has no field, or column, of the name that was asked for."""
    return UserError(
        where,
        f"has no field {field!r}",
        got=f"the fields {', '.join(there)}",
        fix="Name the field that holds the text with --text-field.",
    )


def _check_first(data: bytes, field: str, where: str) -> None:
    begun = data.lstrip()
    num_blank = data[: len(data) - len(begun)].count(b"\n")
    first = _object(begun.split(b"\n", 1)[0], lambda: _place(where, num_blank))
    if field not in first:
        raise no_field_error(where, field, list(first))


def _parse_fast(data: bytes, field: str) -> pa.ChunkedArray:
    table = pyarrow.json.read_json(
        pa.BufferReader(data),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=pa.schema([(field, pa.string())]), unexpected_field_behavior="ignore"
        ),
    )
    return table.column(field)


def _parse_line_by_line(
    data: bytes, field: str, where: str, lines_before: Callable[[], int]
) -> pa.Array:
    """As `_parse_fast`, and finds the line at fault, or takes what Arrow's parser does not."""
    found: list[bytes | None] = []
    for number, line in enumerate(data.split(b"\n")):
        if line.strip():
            place = functools.partial(_place_in_block, where, lines_before, number)
            value = _object(line, place).get(field)
            if not isinstance(value, str | None):
                raise _not_text_error(place(), field, value)
            found.append(None if value is None else _encode(value))
    return pa.array(found, pa.binary())


def _place_in_block(where: str, lines_before: Callable[[], int], number: int) -> str:
    return _place(where, lines_before() + number)


def _place(where: str, lines_before: int) -> str:
    return f"{where}, line {lines_before + 1:,}"


def _object(line: bytes, place: Callable[[], str]) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise UserError(
            place(),
            f"is no JSON: {error}",
            fix="Mend the line; a JSON lines file holds one object a line.",
        ) from None
    if not isinstance(value, dict):
        raise UserError(
            place(),
            "is no JSON object",
            got=type(value).__name__,
            fix="Write one object a line, with the text in a field.",
        )
    return value


def _not_text_error(place: str, field: str, value: object) -> UserError:
    return UserError(
        place,
        f"the field {field!r} is no text",
        got=type(value).__name__,
        expected="a string",
        fix="Name a field of strings with --text-field.",
    )


def _encode(text: str) -> bytes:
    r"""UTF-8; halves of surrogate pairs (a lone `\ud83d` in the JSON) stay bad bytes."""
    return text.encode("utf-8", errors="surrogatepass")
