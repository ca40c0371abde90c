import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from clozeflow.shards import arrow


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 100])
def test_arrays_are_those_of_arrow(size):
    flags = np.random.default_rng(size).random(size) < 0.5
    assert arrow.booleans(flags).to_pylist() == flags.tolist()
    places = np.arange(size)[::-1]
    assert arrow.indices(places).to_pylist() == places.tolist()
    assert arrow.indices(places[::2]).to_pylist() == places[::2].tolist()
    lengths = pc.binary_length(pa.array(["é" * place for place in places], pa.string()))
    np.testing.assert_array_equal(arrow.numbers(lengths), 2 * places)
    np.testing.assert_array_equal(arrow.numbers(lengths[1:]), 2 * places[1:])


def test_text_is_a_scalar():
    assert arrow.text("▁a").as_py() == "▁a"
    joined = pc.binary_join_element_wise(arrow.text(" "), pa.array(["a", "b"]), arrow.text(""))
    assert joined.to_pylist() == [" a", " b"]


def test_a_worker_imports_no_pandas(shards, corpus, tokenizer, tmp_path):
    pytest.importorskip("pandas")
    code = f"""
import sys
from clozeflow import artifacts
from clozeflow.shards import stage, units
from clozeflow.shards.config import ShardConfig
from clozeflow.tokenizer import loading
corpus, tokenizer = (artifacts.Artifact(uri=u, manifest=artifacts.read_manifest(u))
                     for u in ({corpus.uri!r}, {tokenizer.uri!r}))
ids = loading.special_ids(tokenizer.uri)
(unit, *_) = stage.plan(ShardConfig(seq_len=32), corpus, tokenizer, ids, {str(tmp_path)!r})
assert units.write_unit(unit)["files"]
sys.exit("pandas" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
