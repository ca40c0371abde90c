"""The sources of held-out tokens: which they are, told again from the documents alone."""

import dataclasses
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeflow.errors import UserError
from clozeflow.shards import packing, provenance
from clozeflow.shards.config import Packing
from clozeflow.shards.source import Source
from clozeflow.tokenizer.special import SpecialIds
from tests.shards import fixtures

SOURCES = ("a", "b", "c")
DOCUMENTS = st.lists(st.tuples(st.integers(0, 12), st.sampled_from(SOURCES)), max_size=25)


def packed(documents, seq_len, kind, batches):
    """Rows of documents whose ids are 1000 and more for each source, and where they come from."""
    packer = packing.packer(kind, seq_len=seq_len, ids=SpecialIds())
    stream, rest, parts = provenance.Stream(), np.empty(0, np.int32), []
    for chosen in np.array_split(np.arange(len(documents)), batches):
        few = [documents[i] for i in chosen]
        lengths = np.array([length for length, _ in few], np.int64)
        ids = [1000 * (1 + SOURCES.index(name)) + np.arange(length) for length, name in few]
        num_before = stream.num_ids - len(rest)
        names = pa.array([name for _, name in few], pa.string())
        stream.add(names, packer.lengths_in_stream(lengths))
        joined = packer.join(np.concatenate([np.empty(0, np.int32), *ids]), lengths)
        rows, rest = packer.cut(np.concatenate([rest, joined]))
        parts.append(rows.behind(num_before))
    padded = packer.pad(rest).behind(stream.num_ids - len(rest))
    return packing.concatenate([*parts, padded], seq_len), stream, packer, rest


@given(DOCUMENTS, st.integers(8, 20), st.sampled_from(Packing), st.integers(1, 4))
def test_every_token_has_its_documents_source(documents, seq_len, kind, batches):
    rows, stream, packer, rest = packed(documents, seq_len, kind, batches)
    order = np.random.default_rng(0).permutation(len(rows))
    rows = rows.take(order)
    runs = stream.runs(rows, packer)
    row, position = np.nonzero(rows.input_ids >= 1000)
    found = [runs.names[i] for i in runs.source_at(row, position, seq_len=seq_len)]
    assert found == [SOURCES[i // 1000 - 1] for i in rows.input_ids[row, position]]
    tail = [name for name, number in stream.tail(len(rest)) for _ in range(number)]
    assert len(tail) == len(rest)
    told = [
        SOURCES[i // 1000 - 1] if i >= 1000 else name for i, name in zip(rest, tail, strict=True)
    ]
    assert tail == told


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """Two parts of held-out documents, from two sources in turn."""
    texts = list(fixtures.documents())
    return fixtures.write_corpus(
        tmp_path_factory.mktemp("corpus"),
        train=[texts[40:60]],
        validation=[texts[:20], texts[20:40]],
    )


@pytest.fixture(scope="module")
def made(spoken, tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "shards"
    return fixtures.make_shards(folder, corpus=spoken, tokenizer=tokenizer, examples_per_shard=30)


def tokens_by_source(corpus, tokenizer, split):
    from tokenizers import Tokenizer

    truth = Tokenizer.from_file(tokenizer.path("tokenizer.json"))
    found = {}
    for file in corpus.manifest.splits[split].files:
        table = pq.read_table(corpus.path(file.path))
        for text, name in zip(table["text"].to_pylist(), table["source"].to_pylist(), strict=True):
            found.setdefault(name, []).extend(truth.encode(text, add_special_tokens=False).ids)
    return {name: sorted(ids) for name, ids in found.items()}


def test_shards_tell_the_source_of_every_held_out_token(made, spoken, tokenizer):
    source, found = Source.open(made, "validation"), {}
    for index, file in enumerate(source.files):
        input_ids, _ = source.read(index)
        runs = provenance.read_runs(made, file)
        row, position = np.nonzero(input_ids > 4)
        names = np.array(runs.names)[runs.source_at(row, position, seq_len=32)]
        for name in set(names):
            found.setdefault(str(name), []).extend(input_ids[row, position][names == name].tolist())
    assert len(source.files) >= 3  # two units, and what both left over
    expected = tokens_by_source(spoken, tokenizer, "validation")
    assert {name: sorted(ids) for name, ids in found.items()} == expected


def test_the_files_are_listed_and_train_has_none(made):
    files = {file.path for file in made.manifest.files}
    shards = [file.path for file in made.manifest.splits["validation"].files]
    assert {provenance.path_of(path) for path in shards} == files - {"report.html"}
    assert shards[0] == "validation/shard-00000-22.tfrecord"
    assert provenance.path_of(shards[0]) == "sources/validation/shard-00000-22.parquet"
    assert provenance.read_runs(made, made.manifest.splits["train"].files[0]) is None


def test_counted_tokens_are_those_of_the_rows(made):
    (*_, file) = made.manifest.splits["validation"].files
    runs = provenance.read_runs(made, file)
    again = [0] * len(runs.names)
    before = {}
    for row, end, source in zip(runs.rows, runs.ends, runs.sources, strict=True):
        again[source] += int(end - before.get(row, 0))
        before[row] = end
    assert runs.num_tokens.tolist() == again


def test_a_changed_file_is_refused(made, tmp_path):
    copy = dataclasses.replace(made, uri=str(tmp_path / "copy"))
    shutil.copytree(made.uri, copy.uri)
    file = copy.manifest.splits["validation"].files[0]
    path = tmp_path / "copy" / provenance.path_of(file.path)
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"shard-00000-22\.parquet: has other content"):
        provenance.read_runs(copy, file)


def test_a_worker_imports_no_pandas(spoken, tokenizer, tmp_path):
    pytest.importorskip("pandas")
    code = f"""
import sys
from clozeflow import artifacts
from clozeflow.shards import stage, units
from clozeflow.shards.config import ShardConfig
from clozeflow.tokenizer import loading
corpus, tokenizer = (artifacts.Artifact(uri=u, manifest=artifacts.read_manifest(u))
                     for u in ({spoken.uri!r}, {tokenizer.uri!r}))
ids = loading.special_ids(tokenizer.uri)
todo = stage.plan(ShardConfig(seq_len=32), corpus, tokenizer, ids, {str(tmp_path)!r})
(unit, *_) = [unit for unit in todo if unit.split == "validation"]
assert units.write_unit(unit)["files"][0]["sources"]
sys.exit("pandas" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
