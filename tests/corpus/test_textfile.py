"""Byte ranges: wherever a file is cut, every document is read once."""

import random

import pytest

from clozeflow.corpus import textfile
from clozeflow.corpus.config import BadBytes, Documents
from clozeflow.corpus.sources import SourceFile
from clozeflow.errors import UserError

LINE_ENDS = {"lf": "\n", "crlf": "\r\n"}


def read(path, documents, bad_bytes=BadBytes.REPLACE, **span):
    file = SourceFile(
        location=str(path), source="", ref_name="", fingerprint="", num_bytes=path.stat().st_size
    )
    return [d for _, d, _ in textfile.read_blocks(file, documents, bad_bytes, **span)]


@pytest.mark.parametrize("end", LINE_ENDS)
@pytest.mark.parametrize("documents", [Documents.LINE, Documents.PARAGRAPH])
def test_ranges_meet_between_documents(tmp_path, monkeypatch, documents, end):
    monkeypatch.setattr(textfile, "BLOCK_BYTES", 300)
    monkeypatch.setattr(textfile, "MIN_BLOCK_BYTES", 50)
    random.seed(0)
    lines = [random.choice(["", " ", "word", "é" * 40, "some more words " * 9]) for _ in range(400)]
    path = tmp_path / "text.txt"
    path.write_text(LINE_ENDS[end].join(lines), newline="")
    whole = path.read_bytes()
    assert b"".join(read(path, documents)) == whole
    for _ in range(30):
        cuts = sorted(random.sample(range(1, len(whole)), 5))
        spans = zip([0, *cuts], [*cuts, len(whole)], strict=True)
        pieces = [b"".join(read(path, documents, start=a, end=b)) for a, b in spans]
        assert b"".join(pieces) == whole
        border = b"\n" if documents == Documents.LINE else (b"\n", b" ", b"\r")
        assert all(piece.endswith(border) for piece in pieces[:-1] if piece)
    if documents == Documents.PARAGRAPH:
        blocks = read(path, documents)
        assert len(blocks) > 5
        assert all(b.rstrip(b" \r\n") != b.rstrip(b" ") for b in blocks[:-1])


def test_a_file_document_is_never_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(textfile, "BLOCK_BYTES", 100)
    monkeypatch.setattr(textfile, "MIN_BLOCK_BYTES", 10)
    path = tmp_path / "text.txt"
    path.write_text("line\n\n" * 500)
    assert read(path, Documents.FILE) == [path.read_bytes()]


@pytest.mark.parametrize("text", ["plain text", "naïve", "日本語の文章", "x", ""])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_encodings_by_their_mark(text, encoding):
    expected = "utf-8" if encoding.startswith("utf-8") else encoding
    assert textfile.encoding_of(text.encode(encoding)) == expected


def test_a_too_long_document_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(textfile, "BLOCK_BYTES", 100)
    monkeypatch.setattr(textfile, "MAX_DOCUMENT_BYTES", 1000)
    path = tmp_path / "text.txt"
    path.write_text("x" * 2000)
    with pytest.raises(UserError, match=r"text\.txt: has a document \(line\) that is too long"):
        read(path, Documents.LINE)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32"])
def test_a_text_that_ends_within_a_character(tmp_path, monkeypatch, encoding):
    monkeypatch.setattr(textfile, "BLOCK_BYTES", 777)  # so that characters are cut
    path = tmp_path / "text.txt"
    path.write_bytes(("One line.\n" * 500).encode(encoding)[:-1])
    text = b"".join(read(path, Documents.LINE)).decode()
    assert text == "One line.\n" * 499 + "One line.\ufffd"
    num_bytes_of_a_character = 4 if encoding == "utf-32" else 2
    offset = path.stat().st_size + 1 - num_bytes_of_a_character
    with pytest.raises(UserError, match=f"is not {encoding} at offset {offset:,}"):
        read(path, Documents.LINE, BadBytes.REFUSE)


def test_the_place_of_a_bad_byte_counts_what_was_held_over(tmp_path, monkeypatch):
    monkeypatch.setattr(textfile, "BLOCK_BYTES", 777)
    content = bytearray(("\ufeff" + "One line.\n" * 1000).encode("utf-16-le"))
    content[10_001] = 0xDC  # the second half of a pair, alone
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(UserError, match="at offset 10,000"):
        read(path, Documents.LINE, BadBytes.REFUSE)
