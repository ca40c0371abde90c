"""The kinds of folders that others' scripts leave, whole and broken."""

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from clozeflow import artifacts, registry, stages
from clozeflow.artifacts import Artifact
from clozeflow.errors import UserError
from clozeflow.shards import reader
from clozeflow.verification import verify


def write(path: Path, rows: np.ndarray, *, extra: dict | None = None) -> None:
    """A file as the TPU scripts of transformers write it: one message after the other."""
    path.parent.mkdir(parents=True, exist_ok=True)

    def ints(values):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in rows:
            feature = {"input_ids": ints(row), "attention_mask": ints([1] * len(row))}
            feature.update({name: ints(values) for name, values in (extra or {}).items()})
            features = tf.train.Features(feature=feature)
            writer.write(tf.train.Example(features=features).SerializeToString())


def some_rows(count: int = 10, seq_len: int = 128, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(5, 800, (count, seq_len))


def adopt(folder: Path, tokenizer: Artifact, output: Path, **settings) -> Artifact:
    stage = registry.STAGES["shard"]
    config = stage.config(adopt=str(folder), num_workers=1, **settings)
    manifest = stages.run_stage(
        stage, config, inputs={"tokenizer": tokenizer.uri}, output=str(output)
    )
    return Artifact(uri=str(output), manifest=manifest)


def read(shards: Artifact, split: str = "train") -> np.ndarray:
    batches = reader.eval_batches(shards, split=split, batch_size=7).as_numpy_iterator()
    return np.concatenate([batch["input_ids"] for batch in batches])


def test_a_good_folder(tmp_path, tokenizer):
    rows = some_rows()
    write(tmp_path / "good" / "dataset-0-10.tfrecord", rows)
    shards = adopt(tmp_path / "good", tokenizer, tmp_path / "made")
    (entry,) = shards.manifest.splits["train"].files
    assert entry.path == "train/shard-00000-10.tfrecord"
    assert entry.counts == {"num_examples": 10, "num_tokens": 1280}
    assert shards.manifest.properties["seq_len"] == 128
    np.testing.assert_array_equal(read(shards), rows)
    verify(shards.uri)
    # The folder itself is as it was, and may go.
    shutil.rmtree(tmp_path / "good")
    np.testing.assert_array_equal(read(shards), rows)


def test_splits_and_the_order_of_numbers(tmp_path, tokenizer):
    blocks = [some_rows(3, seed=seed) for seed in range(12)]
    for index, block in enumerate(blocks):
        write(tmp_path / "theirs" / "train" / f"dataset-{index}-3.tfrecord", block)
    write(tmp_path / "theirs" / "validation" / "dataset-0-2.tfrecord", blocks[0][:2])
    shards = adopt(tmp_path / "theirs", tokenizer, tmp_path / "made")
    np.testing.assert_array_equal(read(shards), np.concatenate(blocks))
    np.testing.assert_array_equal(read(shards, "validation"), blocks[0][:2])


def test_the_folder_is_an_input_by_its_content(tmp_path, tokenizer):
    write(tmp_path / "a" / "dataset-0-10.tfrecord", some_rows())
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    one = adopt(tmp_path / "a", tokenizer, tmp_path / "one")
    other = adopt(tmp_path / "b", tokenizer, tmp_path / "other")
    assert one.manifest.fingerprint == other.manifest.fingerprint
    assert one.manifest.input("adopt").uri == str(tmp_path / "a")


def test_gzip_and_further_features(tmp_path, tokenizer):
    rows = some_rows(4)
    write(tmp_path / "x.tfrecord", rows, extra={"token_type_ids": [0] * 128})
    path = tmp_path / "theirs" / "data-0-4.tfrecord.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress((tmp_path / "x.tfrecord").read_bytes()))
    shards = adopt(path.parent, tokenizer, tmp_path / "made")
    np.testing.assert_array_equal(read(shards), rows)


def test_cut_at_the_end_of_a_record(tmp_path, tokenizer):
    # TensorFlow itself reads such a file short, without an error.
    path = tmp_path / "cut" / "dataset-0-10.tfrecord"
    write(path, some_rows())
    whole = path.read_bytes()
    write(path, some_rows()[:9])
    assert whole.startswith(path.read_bytes())
    with pytest.raises(UserError, match=r"dataset-0-10\.tfrecord.*got 9, expected 10"):
        adopt(path.parent, tokenizer, tmp_path / "made")
    assert not artifacts.is_finished(str(tmp_path / "made"))


@pytest.mark.parametrize("num_bytes", [1, 7, 12, 500])
def test_cut_inside_a_record(tmp_path, tokenizer, num_bytes):
    path = tmp_path / "cut" / "dataset-0-10.tfrecord"
    write(path, some_rows())
    path.write_bytes(path.read_bytes()[:-num_bytes])
    with pytest.raises(UserError, match="dataset-0-10"):
        adopt(path.parent, tokenizer, tmp_path / "made")


def test_a_changed_byte(tmp_path, tokenizer):
    path = tmp_path / "changed" / "dataset-0-10.tfrecord"
    write(path, some_rows())
    content = bytearray(path.read_bytes())
    content[300] ^= 4
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"dataset-0-10.*checksum"):
        adopt(path.parent, tokenizer, tmp_path / "made")


def test_rows_of_another_length(tmp_path, tokenizer):
    path = tmp_path / "short" / "dataset-0-10.tfrecord"
    write(path, some_rows(seq_len=32))
    with pytest.raises(UserError, match="rows are 32 long, the run expects 128"):
        adopt(path.parent, tokenizer, tmp_path / "made")
    assert read(adopt(path.parent, tokenizer, tmp_path / "m", seq_len=32)).shape == (10, 32)


def test_one_row_of_another_length(tmp_path, tokenizer):
    path = tmp_path / "ragged" / "dataset-0-3.tfrecord"
    write(path, [*some_rows(2).tolist(), [5] * 127])
    with pytest.raises(UserError, match="holds no examples of 128 tokens"):
        adopt(path.parent, tokenizer, tmp_path / "made")


def test_a_name_without_a_count(tmp_path, tokenizer, caplog):
    rows = some_rows()
    path = tmp_path / "pattern" / "dataset-00000-of-00010.tfrecord"
    write(path, rows)
    # Without a manifest: one clear error that says what to do. With one: no obstacle.
    with pytest.raises(UserError, match=r"no manifest.json.*clozeflow shard --adopt"):
        artifacts.open_artifact(str(path.parent), artifacts.ArtifactType.SHARDS, name="shards")
    shards = adopt(path.parent, tokenizer, tmp_path / "made")
    assert "its name has no number of examples" in caplog.text
    np.testing.assert_array_equal(read(shards), rows)


def test_fewer_than_a_batch(tmp_path, tokenizer):
    rows = some_rows(2)
    write(tmp_path / "few" / "validation" / "dataset-0-2.tfrecord", rows)
    write(tmp_path / "few" / "train" / "dataset-0-2.tfrecord", rows)
    shards = adopt(tmp_path / "few", tokenizer, tmp_path / "made")
    (batch,) = reader.eval_batches(shards, split="validation", batch_size=64).as_numpy_iterator()
    np.testing.assert_array_equal(batch["input_ids"], rows)
    assert batch["row"].tolist() == [0, 1]


@pytest.mark.parametrize("wrong", [800, -1, 2**40])
def test_ids_that_the_tokenizer_does_not_have(tmp_path, tokenizer, wrong):
    rows = some_rows()
    rows[3, 3] = wrong
    write(tmp_path / "ids" / "dataset-0-10.tfrecord", rows)
    with pytest.raises(UserError, match="dataset-0-10"):
        adopt(tmp_path / "ids", tokenizer, tmp_path / "made")


def test_records_of_something_else(tmp_path, tokenizer):
    path = tmp_path / "other" / "images-0-1.tfrecord"
    path.parent.mkdir()
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(b"\xff\xfe no message")
    with pytest.raises(UserError, match="no examples with a list of integers `input_ids`"):
        adopt(path.parent, tokenizer, tmp_path / "made")


def test_empty_things(tmp_path, tokenizer):
    (tmp_path / "nothing").mkdir()
    with pytest.raises(UserError, match="holds no shards"):
        adopt(tmp_path / "nothing", tokenizer, tmp_path / "made")
    write(tmp_path / "empty" / "dataset-0-0.tfrecord", some_rows(0))
    with pytest.raises(UserError, match="holds no examples"):
        adopt(tmp_path / "empty", tokenizer, tmp_path / "made")


def test_one_of_corpus_and_folder(tmp_path, tokenizer, corpus):
    stage = registry.STAGES["shard"]
    with pytest.raises(UserError, match="--corpus"):
        stages.run_stage(
            stage,
            stage.config(),
            inputs={"tokenizer": tokenizer.uri},
            output=str(tmp_path / "made"),
        )
