"""What a source may be: formats, compressions, names, and one clear error for each fault."""

import bz2
import gzip
import io
import json
import lzma
import os
import socket
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from clozeflow.corpus import hub, parquet, reading, sources, textfile
from clozeflow.corpus.config import CorpusConfig
from clozeflow.errors import UserError

TEXTS = [f"Document number {i}, naïve and café." for i in range(500)]


def json_lines(texts, field="text"):
    return "".join(json.dumps({"id": i, field: t, "n": [i]}) + "\n" for i, t in enumerate(texts))


def zstd_frames(data):
    """Two frames, as tools that append or work in parallel write them."""
    half = len(data) // 2
    compressor = zstandard.ZstdCompressor()
    return compressor.compress(data[:half]) + compressor.compress(data[half:])


COMPRESSIONS = {
    ".gz": gzip.compress,
    ".zst": zstd_frames,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
}


@pytest.mark.parametrize("ending", COMPRESSIONS)
@pytest.mark.parametrize("kind", ["txt", "jsonl"])
def test_compressed_files(read_all, tmp_path, ending, kind):
    content = "\n".join(TEXTS) if kind == "txt" else json_lines(TEXTS)
    path = tmp_path / f"data.{kind}{ending}"
    path.write_bytes(COMPRESSIONS[ending](content.encode()))
    config = CorpusConfig(source=(str(path),))
    assert read_all(config) == TEXTS
    assert sources.find_files(config)[0].source == "data"


@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_a_damaged_or_cut_file_is_named(read_all, tmp_path, ending):
    path = tmp_path / f"data.txt{ending}"
    whole = COMPRESSIONS[ending]("\n".join(TEXTS * 20).encode())
    for content in (whole[: len(whole) - 20], b"this is plain text\n" * 50):
        path.write_bytes(content)
        with pytest.raises(UserError, match=rf"data\.txt{ending}: is damaged, cut short"):
            read_all(CorpusConfig(source=(str(path),)))


@pytest.mark.parametrize(
    "magic", [b"\x1f\x8b\x08", b"PK\x03\x04", b"%PDF-1.7", b"PAR1", b"\x7fELF"]
)
def test_a_file_that_is_no_text_is_refused(read_all, tmp_path, magic):
    path = tmp_path / "data.txt"
    path.write_bytes(magic + bytes(range(256)))
    with pytest.raises(UserError, match="is no text"):
        read_all(CorpusConfig(source=(str(path),)))


def test_parquet(read_all, tmp_path):
    path = tmp_path / "data.parquet"
    columns = {"content": pa.array([*TEXTS, None]), "other": pa.array(range(501))}
    pq.write_table(pa.table(columns), path, row_group_size=100)
    config = CorpusConfig(source=(str(path),), text_field="content")
    assert read_all(config) == [*TEXTS, ""]
    units = reading.plan_units(sources.find_files(config), config.documents, reading.UNIT_BYTES)
    assert sum(len(unit) for unit in units) == 6  # row groups can be read by themselves
    with pytest.raises(UserError, match=r"no field 'text' .*content, other.*--text-field"):
        read_all(CorpusConfig(source=(str(path),)))
    with pytest.raises(UserError, match=r"field 'other' is no text .*int64"):
        read_all(CorpusConfig(source=(str(path),), text_field="other"))
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(UserError, match=r"data\.parquet: cannot be read as Parquet"):
        read_all(config)


def test_parquet_with_a_name_that_is_no_text_is_refused(read_all, badly_named_parquet):
    with pytest.raises(UserError, match=r"data\.parquet: cannot be read as Parquet.*utf-8"):
        read_all(CorpusConfig(source=(badly_named_parquet,)))


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())]
)
def test_parquet_columns_of_other_types(read_all, tmp_path, kind):
    pq.write_table(pa.table({"text": pa.array(TEXTS).cast(kind)}), tmp_path / "data.parquet")
    assert read_all(CorpusConfig(source=(str(tmp_path / "data.parquet"),))) == TEXTS


def test_json_lines(read_all, tmp_path):
    path = tmp_path / "data.jsonl"
    config = CorpusConfig(source=(str(path),))
    lines = [
        '{"text": "a\\nb"}',
        "",
        '{"text": null}',
        '{"no": 1}',
        '{"text": "\\u00e9 \\ud83d\\ude00"}',
    ]
    path.write_text("\n".join(lines))
    assert read_all(config) == ["a\nb", "", "", "é 😀"]
    path.write_text('{"text": "half of a pair: \\ud83d"}\n')
    assert read_all(config) == ["half of a pair: \ufffd\ufffd\ufffd"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json_lines(TEXTS, field="body"), r"has no field 'text' \(got the fields id, body, n\)"),
        ('{"text": "a"}\n{"text": "b"\n', r"data\.jsonl, line 2: is no JSON"),
        ('{"text": "a"}\n{"text": 5}\n', "line 2: the field 'text' is no text .*int"),
        ('\n\n["a"]\n', "line 3: is no JSON object .*list"),
    ],
)
def test_wrong_json_lines_are_named(read_all, tmp_path, content, message):
    path = tmp_path / "data.jsonl"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        read_all(CorpusConfig(source=(str(path),)))


@pytest.mark.parametrize("number", [1, 2, 150, 299])
def test_a_wrong_line_has_its_number_in_the_file_wherever_work_is_cut(
    tmp_path, monkeypatch, number
):
    monkeypatch.setattr(textfile, "BLOCK_BYTES", 300)
    monkeypatch.setattr(textfile, "MIN_BLOCK_BYTES", 50)
    path = tmp_path / "data.jsonl"
    lines = [json.dumps({"text": "é" * (i % 40)}, ensure_ascii=False) for i in range(300)]
    lines[number - 1] = '{"text": 5}'
    path.write_text("\n".join(lines), encoding="utf-8")
    config = CorpusConfig(source=(str(path),))
    units = reading.plan_units(sources.find_files(config), config.documents, 2000)
    assert len(units) > 5
    with pytest.raises(UserError, match=rf"data\.jsonl, line {number}: the field 'text' is no"):
        [list(reading.read_segment(segment, config)) for unit in units for segment in unit]


@pytest.mark.parametrize("documents", ["line", "file", "paragraph"])
def test_what_a_document_is(make_corpus, documents):
    content = "one\ntwo\r\n\r\n \t\nthree\n\n\n\nfour\n"
    expected = {
        "line": {"one", "two", "three", "four"},
        "paragraph": {"one\ntwo", "three", "four"},
        "file": {"one\ntwo\n\n \t\nthree\n\n\n\nfour"},
    }
    assert make_corpus(content, documents=documents).texts() == expected[documents]


def test_globs_folders_and_names(tmp_path):
    for name in ("b/x.txt", "b/y.jsonl", "a/x.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json_lines(["json"]) if "json" in name else f"in {name}")

    def files(*specs):
        found = sources.find_files(CorpusConfig(source=tuple(str(s) for s in specs)))
        return [(f.ref_name, f.source) for f in found]

    assert files(tmp_path / "*" / "x.txt") == [("x.txt", "x"), ("x.txt", "x")]
    assert files(tmp_path / "b") == [("x.txt", "x"), ("y.jsonl", "y")]
    assert files(f"wiki={tmp_path}/b/*.txt") == [("wiki/x.txt", "wiki")]
    (tmp_path / "year=2020.txt").write_text("a path with an equals sign")
    assert files(tmp_path / "year=2020.txt") == [("year=2020.txt", "year=2020")]
    refs = sources.refs(sources.find_files(CorpusConfig(source=(f"{tmp_path}/*/x.txt",))))
    assert len(refs) == 1 and refs[0].fingerprint.startswith("sha256:")


@pytest.mark.parametrize("spec", ["no/such/file.txt", "no/such/*.txt", "name=no/such.txt"])
def test_a_source_that_names_nothing(spec):
    with pytest.raises(UserError, match=r"--source .*names no file"):
        sources.find_files(CorpusConfig(source=(spec,)))


def test_paths_without_rights(make_corpus, tmp_path):
    make_corpus("imports all that the stage needs while it may\n")
    closed, secret = tmp_path / "closed", tmp_path / "secret.txt"
    closed.mkdir()
    (closed / "text.txt").write_text("text")
    secret.write_text("text")
    closed.chmod(0)
    secret.chmod(0)
    is_root = os.geteuid() == 0
    if is_root:  # who may read everything; another user may not
        for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
            folder.chmod(0o755)
        os.seteuid(65534)
    try:
        for path in (closed, secret):
            with pytest.raises(UserError, match=rf"{path.name}: may not be read"):
                sources.find_files(CorpusConfig(source=(str(path),)))
    finally:
        if is_root:
            os.seteuid(0)
        closed.chmod(0o755)


def test_object_store(make_corpus):
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe("/bucket/a/one.txt", b"one\n")
    memory.pipe("/bucket/b/two.jsonl", json_lines(["two"]).encode())
    memory.pipe("/bucket/b/three.txt.gz", gzip.compress(b"three\n"))
    made = make_corpus(["memory://bucket/a/*.txt", "memory://bucket/b"])
    assert made.texts() == {"one", "two", "three"}
    assert [ref.name for ref in made.manifest.inputs] == ["one.txt", "three.txt.gz", "two.jsonl"]


def test_hub_without_network(monkeypatch):
    pytest.importorskip("huggingface_hub")

    def no_network(*_, **__):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    with pytest.raises(UserError, match=r"--source hf:some/set: the Hub cannot be reached.*FOLDER"):
        hub.find_splits("hf:some/set")
    with pytest.raises(UserError, match="is no name of a data set"):
        hub.find_splits("hf:a:b:c:d")


@pytest.fixture
def hub_folder(tmp_path):
    """A data set in the Hub's layout, with three splits and one text in two of them."""
    pytest.importorskip("datasets")
    for split in ("train", "validation", "test"):
        texts = [f"{split} {text}" for text in TEXTS[:50]] + ["In train and test."] * (
            split != "validation"
        )
        (tmp_path / "set").mkdir(exist_ok=True)
        pq.write_table(pa.table({"body": texts}), tmp_path / "set" / f"{split}.parquet")
    return f"hf:{tmp_path}/set"


def test_hub_data_set_keeps_its_splits(make_corpus, hub_folder):
    made = make_corpus([hub_folder], text_field="body")
    for split in ("train", "validation", "test"):
        texts = {row["text"] for row in made.documents(split)}
        assert {f"{split} {text}" for text in TEXTS[:50]} == texts - {"In train and test."}
    assert "In train and test." in {row["text"] for row in made.documents("test")}
    assert made.manifest.properties["num_contaminated"] == 1
    assert made.statistics["contamination"]["by_splits"] == {"train+test": 1}
    assert made.statistics["contamination"]["examples"][0]["text"] == "In train and test."
    assert [ref.name for ref in made.manifest.inputs] == ["set/test", "set/train", "set/validation"]
    assert "In train and test." in (made.folder / "report.html").read_text()


def test_hub_data_set_split_by_hash(make_corpus, hub_folder):
    made = make_corpus([hub_folder], text_field="body", own_splits="ignore")
    assert len(made.documents("train")) > 120
    with pytest.raises(UserError, match=r"has no field 'text' \(got body\)"):
        make_corpus([hub_folder])


def test_an_empty_name_is_refused():
    for empty in ("", "  "):
        with pytest.raises(UserError, match="--source"):
            CorpusConfig(source=("a.txt", empty))


def test_hidden_files_of_a_folder_are_left_out(tmp_path):
    for name in ("a.txt", ".hidden.txt", ".git/b.txt", "sub/c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    found = sources.find_files(CorpusConfig(source=(str(tmp_path),)))
    assert [file.ref_name for file in found] == ["a.txt", "c.txt"]


def test_parquet_is_read_by_the_thread_that_asks(tmp_path):
    """A thread of Arrow's that still reads when an error ends the program aborts the process."""
    readers = set()

    class Watched(io.BytesIO):
        def read(self, *arguments):
            readers.add(threading.get_ident())
            return super().read(*arguments)

    stream = io.BytesIO()
    pq.write_table(pa.table({"text": TEXTS}), stream, row_group_size=10)
    with parquet.open_stream(Watched(stream.getvalue())) as file:
        batches = list(parquet.batches(file, batch_size=7))
    assert [text for batch in batches for text in batch.column(0).to_pylist()] == TEXTS
    assert readers == {threading.get_ident()}
