r"""The one definition of a document's text: everything that is done to it before it is stored.

In this order: bad bytes are replaced (or refused), `\r\n` becomes `\n`, control characters go,
the Unicode form is applied, white space around the text goes. Cleaning a clean text changes
nothing. Runs of spaces inside a text stay: the tokenizer's normaliser is the place for them.

All of it works on blocks: many documents in one buffer, with a separator byte after each.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clozeflow.corpus.config import BadBytes, UnicodeForm
from clozeflow.errors import UserError

SEPARATOR = b"\xff"
"""Stands in no UTF-8 text, so that it can separate texts that hold line ends."""

_KEPT = b"\t\n"
_CONTROLS = bytes(c for c in (*range(0x20), 0x7F) if c not in _KEPT)
# Controls that part words (VT, FF, the separators FS to US, a lone CR) leave a space behind.
_PARTING = b"\x0b\x0c\r\x1c\x1d\x1e\x1f"
_VANISHING = bytes(c for c in _CONTROLS if c not in _PARTING)
_TO_SPACE = bytes.maketrans(_PARTING, b" " * len(_PARTING))
_NUL = b"\0"  # for separators where text is taken for Unicode: no text has it any more
_NEXT_LINE = b"\xc2\x85"  # U+0085, the one of the C1 controls that parts words
_C1_CONTROL = re.compile(rb"\xc2[\x80-\x9f]")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # U+FEFF, also where files were joined


@dataclasses.dataclass(frozen=True, kw_only=True)
class Block:
    """Documents as they were read: valid UTF-8, each followed by the separator byte."""

    data: bytes
    separator: bytes = SEPARATOR
    num_bad_bytes: int = 0
    """Replacement characters that stand for bytes that were no text."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CleanBlock:
    """Clean texts, without the blank ones, and what was found on the way."""

    texts: pa.StringArray
    num_blank: int
    text_bytes: int
    num_controls: int
    """Control characters (Unicode's Cc but tab and line feed) and byte order marks removed."""


def block_of(texts: list[bytes], *, num_bad_bytes: int = 0) -> Block:
    """A block of texts that are valid UTF-8 each."""
    return Block(data=b"".join(t + SEPARATOR for t in texts), num_bad_bytes=num_bad_bytes)


def decode_utf8(
    data: bytes, *, bad_bytes: BadBytes, where: str, offset: int = 0
) -> tuple[bytes, int]:
    """The bytes as valid UTF-8, and how many replacements that took.

    Args:
        data: What should be UTF-8.
        bad_bytes: What to do where it is not.
        where: The file, for the message.
        offset: Where in the (decompressed) file the data begins.

    Raises:
        UserError: There are bad bytes and they are to be refused.
    """
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        if bad_bytes == BadBytes.REFUSE:
            raise bad_bytes_error(where, "UTF-8", offset + error.start, data[error.start]) from None
        text = data.decode("utf-8", errors="replace")
        return text.encode("utf-8"), text.count("\ufffd") - data.count("\ufffd".encode())
    return data, 0


def clean(block: Block, form: UnicodeForm) -> CleanBlock:
    """Cleans every document of a block; blank ones are left out and counted."""
    data, num_controls = _remove_controls(block.data)
    data = _in_form(data, form, block.separator)
    texts = pc.utf8_trim_whitespace(_split(data, block.separator))
    sizes = pc.binary_length(texts)
    kept = texts.filter(pc.greater(sizes, 0))
    return CleanBlock(
        texts=kept,
        num_blank=len(texts) - len(kept),
        text_bytes=pc.sum(sizes).as_py() or 0,
        num_controls=num_controls,
    )


def _remove_controls(data: bytes) -> tuple[bytes, int]:
    """The data without control characters, and how many there were; line ends do not count."""
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    num_controls = len(data) - len(data.translate(None, _CONTROLS))
    if num_controls:
        data = data.translate(_TO_SPACE, _VANISHING)
    if data.isascii():
        return data, num_controls
    num_marks = data.count(_BYTE_ORDER_MARK)
    if num_marks:
        data = data.replace(_BYTE_ORDER_MARK, b"")
    data, num_c1 = _C1_CONTROL.subn(lambda m: b" " if m[0] == _NEXT_LINE else b"", data)
    return data, num_controls + num_marks + num_c1


def _in_form(data: bytes, form: UnicodeForm, separator: bytes) -> bytes:
    """The texts of a block in a Unicode form.

    Not by Arrow: its `utf8_normalize` decomposes for NFC and NFKC too before version 26.
    """
    if form == UnicodeForm.NONE:
        return data
    name: Literal["NFC", "NFKC"] = "NFC" if form == UnicodeForm.NFC else "NFKC"
    text = data.replace(separator, _NUL).decode("utf-8")
    if text.isascii() or unicodedata.is_normalized(name, text):
        return data
    return unicodedata.normalize(name, text).encode("utf-8").replace(_NUL, separator)


def _split(data: bytes, separator: bytes) -> pa.StringArray:
    """The texts of a block as an array, without a step per text."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == separator[0])
    # Taking the separators out of the buffer moves each end by the number of those before it.
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends - np.arange(len(ends))
    values = data.translate(None, separator)
    return pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(values))


def bad_bytes_error(where: str, encoding: str, offset: int, byte: int) -> UserError:
    """Bytes that are no text, where those are to be refused."""
    return UserError(
        where,
        f"is not {encoding} at offset {offset:,}",
        got=f"byte 0x{byte:02x}",
        fix="Convert the file to UTF-8 (iconv), or take --bad-bytes replace.",
    )
