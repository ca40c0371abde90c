"""The slice by source: the sources with the most text, and where there is none."""

import dataclasses
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clozeflow import artifacts
from clozeflow.artifacts import Artifact
from clozeflow.evaluation.sources import MAX_SOURCES, SourceGroups
from clozeflow.shards.provenance import FOLDER, path_of
from tests.evaluation import fixtures
from tests.shards import fixtures as shard_fixtures

NUM_SOURCES = 25


@pytest.fixture(scope="module")
def many(tokenizer, tmp_path_factory):
    """Shards of 25 held-out sources, each with more text than the one before it."""
    folder = tmp_path_factory.mktemp("many")
    texts = list(shard_fixtures.documents())
    corpus = shard_fixtures.write_corpus(folder / "c", train=[texts[60:]], validation=[texts[:50]])
    (file,) = corpus.manifest.splits["validation"].files
    words = " ".join(texts).split()
    spoken = [" ".join(words[: 20 * (i + 1)]) for i in range(NUM_SOURCES)]
    names = [f"speech-{i:02d}" for i in range(NUM_SOURCES)]
    table = pa.table({"text": spoken, "doc_id": names, "source": names})
    pq.write_table(table, corpus.path(file.path))
    entry = artifacts.file_entry(corpus.uri, file.path, counts=file.counts)
    split = artifacts.Split(files=(entry,))
    splits = {**corpus.manifest.splits, "validation": split}
    manifest = dataclasses.replace(corpus.manifest, splits=splits)
    artifacts.write_manifest(corpus.uri, manifest)
    return shard_fixtures.make_shards(
        folder / "s",
        corpus=Artifact(uri=corpus.uri, manifest=manifest),
        tokenizer=tokenizer,
        seq_len=fixtures.SEQ_LEN,
        examples_per_shard=64,
    )


def test_the_largest_sources_have_groups_of_their_own(many):
    groups = SourceGroups.open(many, "validation")
    largest = [f"speech-{i:02d}" for i in reversed(range(NUM_SOURCES))]
    assert groups.names == (*largest[:MAX_SOURCES], "5 other sources")


def test_an_evaluation_divides_by_them(many, model, tmp_path):
    fixtures.evaluate(tmp_path / "e", model=model, shards=many, batch_size=7)
    results = fixtures.results_of(tmp_path / "e")
    by_source = results["slices"][0]
    assert by_source["name"] == "source"
    sizes = [group["num_questions"] for group in by_source["groups"]]
    assert len(sizes) == MAX_SOURCES + 1
    assert sum(sizes) == results["num_questions"]
    # The text of source i is i + 1 times as long as that of the first; the last five are together.
    expected = np.array([*range(25, 5, -1), 15]) / (25 * 26 / 2)
    assert np.array(sizes) / sum(sizes) == pytest.approx(expected, abs=0.02)
    page = (tmp_path / "e" / "report.html").read_text()
    assert "5 other sources" in page and "no slice by source" not in page


@pytest.mark.parametrize("reason", ["adopted", "train"])
def test_where_shards_do_not_tell_it_the_page_says_so(model, shards, tmp_path, reason):
    split, used = "train" if reason == "train" else "validation", shards
    if reason == "adopted":
        shutil.copytree(shards.uri, tmp_path / "shards")
        shutil.rmtree(tmp_path / "shards" / FOLDER)
        sources = {path_of(file.path) for file in shards.manifest.splits["validation"].files}
        files = tuple(file for file in shards.manifest.files if file.path not in sources)
        manifest = dataclasses.replace(shards.manifest, files=files)
        artifacts.write_manifest(str(tmp_path / "shards"), manifest)
        used = Artifact(uri=str(tmp_path / "shards"), manifest=manifest)
    fixtures.evaluate(tmp_path / "e", model=model, shards=used, split=split)
    names = [slicing["name"] for slicing in fixtures.results_of(tmp_path / "e")["slices"]]
    assert len(names) == 6 and "source" not in names
    assert "There is no slice by source" in (tmp_path / "e" / "report.html").read_text()
