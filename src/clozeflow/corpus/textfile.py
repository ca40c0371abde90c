"""Text files in bounded memory: opened, decompressed, decoded, and cut between documents.

Where a byte range begins and ends is moved to the next border between documents, by one
function for both, so that no document is lost or read twice.
"""

from __future__ import annotations

import bz2
import codecs
import contextlib
import gzip
import io
import itertools
import lzma
import re
import sys
import zlib
from collections.abc import Iterator
from typing import IO, cast

import zstandard

from clozeflow import storage
from clozeflow.corpus.cleaning import bad_bytes_error, decode_utf8
from clozeflow.corpus.config import BadBytes, Documents
from clozeflow.corpus.sources import Compression, SourceFile
from clozeflow.errors import UserError

BLOCK_BYTES = 4 << 20
"""What is held and cleaned at once."""
MIN_BLOCK_BYTES = 64 << 10
MAX_DOCUMENT_BYTES = 1 << 30
"""A longer document is refused: it must fit in memory a few times."""
UTF_8 = "utf-8"

_BLANK_LINE = re.compile(rb"\n[ \t\r\f\v]*\n")
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16: its mark begins like UTF-16's
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NO_TEXT = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip",
    b"%PDF-": "PDF",
    b"PAR1": "Parquet",
    b"\x7fELF": "program",
    b"\x89PNG": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"SQLite format 3\x00": "SQLite",
}


def read_blocks(
    file: SourceFile,
    documents: Documents,
    bad_bytes: BadBytes,
    *,
    start: int = 0,
    end: int | None = None,
) -> Iterator[tuple[int, bytes, int]]:
    """A file's text in blocks of whole documents.

    Args:
        file: A text or JSON lines file.
        documents: What a document is; blocks end between two of them.
        bad_bytes: What to do with bytes that are no text.
        start: Where the range begins (for files that `is_divisible`).
        end: Where it ends; None is the file's end.

    Yields:
        The block's offset in the decompressed file, the block as valid UTF-8, and the number
        of replacements that took.
    """
    with _open(file) as stream:
        if start or end is not None:
            start = _next_border(stream, start, documents)
            end = end and _next_border(stream, end, documents)
            stream.seek(start)
        head = b"" if start else stream.read(4096)
        encoding = encoding_of(head)
        pieces = _pieces(stream, head, None if end is None else end - start)
        if encoding == UTF_8:
            yield from _utf8_blocks(file, pieces, documents, bad_bytes, start)
        else:
            texts = _decoded(file, pieces, encoding, bad_bytes)
            for offset, data, _ in _utf8_blocks(file, texts, documents, BadBytes.REPLACE, 0):
                yield offset, data, data.count("\ufffd".encode())


def is_divisible(file: SourceFile, documents: Documents) -> bool:
    """Whether byte ranges of the file can be read independently."""
    if file.compression or documents == Documents.FILE:
        return False
    with storage.open_read(file.location) as stream:
        return encoding_of(stream.read(4096)) == UTF_8


def encoding_of(head: bytes) -> str:
    """The encoding of a text that begins so: by its mark, or by where its zero bytes stand."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return encoding
    even, odd = head[0::2].count(0), head[1::2].count(0)
    # Latin text in UTF-16 is half zeros, all on one side; text in UTF-8 has none.
    if max(even, odd) > len(head) // 5 and min(even, odd) <= len(head) // 50:
        return "utf-16-be" if even > odd else "utf-16-le"
    return UTF_8


@contextlib.contextmanager
def _open(file: SourceFile) -> Iterator[IO[bytes]]:
    """The file's decompressed bytes; damage is a `UserError`."""
    try:
        with storage.open_read(file.location) as raw, _decompressed(raw, file) as stream:
            yield stream
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
        raise _damaged(file, error) from None
    except OSError as error:
        if file.compression == Compression.BZ2 and error.errno is None:
            raise _damaged(file, error) from None
        raise


def _decompressed(raw: IO[bytes], file: SourceFile) -> IO[bytes]:
    match file.compression:
        case Compression.GZIP:
            return cast(IO[bytes], gzip.GzipFile(fileobj=raw))
        case Compression.XZ:
            return cast(IO[bytes], lzma.LZMAFile(raw))
        case Compression.BZ2:
            return cast(IO[bytes], bz2.BZ2File(raw))
        case Compression.ZSTD:
            return cast(IO[bytes], io.BufferedReader(_ZstdReader(raw), 1 << 20))
        case _:
            return raw


class _ZstdReader(io.RawIOBase):
    """Frames of zstd, one after the other; a cut one is an error, which the library's is not."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw, self._rest = raw, b""
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._pending = memoryview(b"")

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fills the buffer as far as the next piece goes; 0 at the end."""
        while not self._pending:
            piece = self._rest or self._raw.read(1 << 18)
            self._rest = b""
            if not piece:
                if self._frame is not None:
                    raise EOFError("the last frame is not whole")
                return 0
            frame = self._frame or zstandard.ZstdDecompressor().decompressobj()
            self._pending = memoryview(frame.decompress(piece))
            self._frame, self._rest = (None, frame.unused_data) if frame.eof else (frame, b"")
        size = min(len(buffer), len(self._pending))
        buffer[:size] = self._pending[:size]
        self._pending = self._pending[size:]
        return size


def _pieces(stream: IO[bytes], head: bytes, num_bytes: int | None) -> Iterator[bytes]:
    """The head and what follows it, at most a block at a time and `num_bytes` in all."""
    yield head[:num_bytes]
    left = sys.maxsize if num_bytes is None else num_bytes - len(head)
    while left > 0 and (piece := stream.read(min(left, BLOCK_BYTES))):
        left -= len(piece)
        yield piece


def _utf8_blocks(
    file: SourceFile,
    pieces: Iterator[bytes],
    documents: Documents,
    bad_bytes: BadBytes,
    offset: int,
) -> Iterator[tuple[int, bytes, int]]:
    for position, data in _whole_documents(file, pieces, documents):
        where = offset + position
        if where == 0:
            _refuse_other_formats(file, data)
        text, num_bad = decode_utf8(data, bad_bytes=bad_bytes, where=file.location, offset=where)
        yield where, text.removeprefix(codecs.BOM_UTF8) if where == 0 else text, num_bad


def _whole_documents(
    file: SourceFile, pieces: Iterator[bytes], documents: Documents
) -> Iterator[tuple[int, bytes]]:
    """The pieces joined and cut anew, so that each ends between two documents."""
    offset, held, size = 0, [], 0
    for piece in pieces:
        border = _last_border(piece, documents)
        held.append(piece)
        size += len(piece)
        if border and size >= MIN_BLOCK_BYTES:
            rest = piece[border:]
            held[-1] = piece[:border]
            yield offset, b"".join(held)
            offset += size - len(rest)
            held, size = [rest], len(rest)
        if size > MAX_DOCUMENT_BYTES:
            raise _too_long(file, documents)
    if size:
        yield offset, b"".join(held)


def _last_border(data: bytes, documents: Documents) -> int:
    """The last place at which a document may begin, or 0 if there is none."""
    if documents == Documents.LINE:
        return data.rfind(b"\n") + 1
    if documents == Documents.PARAGRAPH:
        return max((match.end() for match in _BLANK_LINE.finditer(data)), default=0)
    return 0


def _next_border(stream: IO[bytes], position: int, documents: Documents) -> int:
    """The first place at or after `position` at which a document may begin."""
    if position == 0:
        return 0
    # A border at `position` itself shows in the bytes before it.
    pattern = re.compile(b"\n") if documents == Documents.LINE else _BLANK_LINE
    begin = position - 1
    stream.seek(begin)
    data, size = b"", 1 << 16
    while piece := stream.read(size):
        data += piece
        if match := pattern.search(data):
            return begin + match.end()
        size = len(data)  # doubling keeps the search linear
    return begin + len(data)


def _decoded(
    file: SourceFile, pieces: Iterator[bytes], encoding: str, bad_bytes: BadBytes
) -> Iterator[bytes]:
    """Pieces of UTF-16 or UTF-32 as UTF-8."""
    errors = "strict" if bad_bytes == BadBytes.REFUSE else "replace"
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    offset = 0
    for piece, is_last in itertools.chain(((piece, False) for piece in pieces), [(b"", True)]):
        num_held = len(decoder.getstate()[0])  # of a character that began in the piece before
        try:
            yield decoder.decode(piece, is_last).encode("utf-8")
        except UnicodeDecodeError as error:
            place = offset - num_held + error.start
            bad = error.object[error.start]
            raise bad_bytes_error(file.location, encoding, place, bad) from None
        offset += len(piece)


def _refuse_other_formats(file: SourceFile, head: bytes) -> None:
    for magic, name in _NO_TEXT.items():
        if head.startswith(magic):
            raise UserError(
                file.location,
                "is no text",
                got=f"a {name} file",
                fix="Give it the ending that says what it is (.gz .zst .xz .bz2 .parquet), "
                "or convert it to text.",
            )


def _damaged(file: SourceFile, error: Exception) -> UserError:
    return UserError(
        file.location,
        f"is damaged, cut short, or not compressed as its name says: {error}",
        fix="Get the file anew.",
    )


def _too_long(file: SourceFile, documents: Documents) -> UserError:
    return UserError(
        file.location,
        f"has a document ({documents.value}) that is too long",
        got=f"more than {MAX_DOCUMENT_BYTES >> 20:,} MiB",
        fix="Cut the file into documents (see --documents).",
    )
