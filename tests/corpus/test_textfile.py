"""Byte ranges: wherever a file is cut, every document is read once."""

import random

import pytest

from clozeflow.corpus import textfile
from clozeflow.corpus.config import BadBytes, Documents
from clozeflow.corpus.sources import SourceFile

LINE_ENDS = {"lf": "\n", "crlf": "\r\n"}


def read(path, documents, **span):
    file = SourceFile(
        location=str(path), source="", ref_name="", fingerprint="", num_bytes=path.stat().st_size
    )
    return [d for _, d, _ in textfile.read_blocks(file, documents, BadBytes.REPLACE, **span)]


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
    from clozeflow.errors import UserError

    monkeypatch.setattr(textfile, "BLOCK_BYTES", 100)
    monkeypatch.setattr(textfile, "MAX_DOCUMENT_BYTES", 1000)
    path = tmp_path / "text.txt"
    path.write_text("x" * 2000)
    with pytest.raises(UserError, match=r"text\.txt: has a document \(line\) that is too long"):
        read(path, Documents.LINE)
