"""Files of rows: what is read, kept, written, and refused with its place."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clozeflow.errors import UserError
from clozeflow.evaluation.rows import batched, read_rows, write_rows

ROWS = [{"id": 1, "text": "one <mask>"}, {"id": 2, "text": "zwei ä <mask>"}]


def written(path, rows=ROWS):
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.write_text("".join(row["text"] + "\n" for row in rows))
    return str(path)


def read(location, **options):
    return [row for _, row in read_rows(location, **{"text_field": "text", **options})]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_rows_are_read_as_they_are(tmp_path, ending):
    assert read(written(tmp_path / f"rows.{ending}")) == ROWS


def test_a_line_of_text_is_a_row(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_bytes("\ufeffone <mask>\r\n\n  \nnext\u2028line <mask>".encode())
    assert read(str(path), text_field="t") == [
        {"t": "one <mask>"},
        {"t": "next\u2028line <mask>"},
    ]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_what_is_written_is_read_again(tmp_path, ending):
    rows = [{**row, "answers": [{"token": "ä", "seen": (0, 3)}]} for row in ROWS * 5000]
    path = str(tmp_path / f"out.{ending}")
    assert write_rows(path, batched(iter(rows))) == 10_000
    expected = [{**row, "answers": [{"token": "ä", "seen": [0, 3]}]} for row in ROWS * 5000]
    assert read(path) == expected


def test_places_name_file_and_line(tmp_path):
    path = written(tmp_path / "rows.jsonl")
    places = [place for place, _ in read_rows(path, text_field="text")]
    assert places == [f"{path}, line 1", f"{path}, line 2"]


@pytest.mark.parametrize("content", [b"", b"\n \n"])
@pytest.mark.parametrize("ending", ["txt", "jsonl"])
def test_an_empty_file_is_refused(tmp_path, ending, content):
    path = tmp_path / f"rows.{ending}"
    path.write_bytes(content)
    with pytest.raises(UserError, match="holds no texts"):
        read(str(path))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"x", r"of no kind.*\.txt, \.jsonl, \.parquet"),
        ("a.jsonl", b'{"text": "a"}\n{"text"', "line 2: is no JSON"),
        ("a.jsonl", b'["a"]', "line 1: is no JSON object"),
        ("a.jsonl", b'{"body": "a"}', "no text in the field 'text'.*body.*--text-field"),
        ("a.jsonl", b'{"text": 3}', "no text in the field 'text'.*got 3"),
        ("a.txt", b"caf\xe9", "is no UTF-8"),
        ("a.parquet", b"no parquet at all", "cannot be read as Parquet"),
    ],
)
def test_a_bad_file_is_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        read(str(tmp_path / name))


def test_parquet_with_a_name_that_is_no_text_is_refused(badly_named_parquet):
    with pytest.raises(UserError, match=r"data\.parquet: cannot be read as Parquet"):
        read(badly_named_parquet)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match="there is no such file"):
        read(str(tmp_path / "nowhere.txt"))


def test_parquet_that_does_not_fit_leaves_nothing(tmp_path):
    path = tmp_path / "out.parquet"
    with pytest.raises(UserError, match=r"does not fit.*\.jsonl"):
        write_rows(str(path), [[{"a": 1}], [{"a": "text"}]])
    assert list(tmp_path.iterdir()) == []
