import itertools
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from clozeflow.artifacts import Artifact
from clozeflow.errors import UserError
from clozeflow.shards import order, reader
from tests.shards import fixtures


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch):
    monkeypatch.setattr(order, "WINDOW_TOKENS", 2 * 64 * 32)


def take(dataset: tf.data.Dataset, count: int) -> list[dict[str, np.ndarray]]:
    return list(itertools.islice(dataset.as_numpy_iterator(), count))


def train(shards, **settings):
    return reader.train_batches(shards, **{"global_batch_size": 16, "seed": 3, **settings})


def all_rows(shards: Artifact, split: str = "train") -> np.ndarray:
    batches = reader.eval_batches(shards, split=split, batch_size=50).as_numpy_iterator()
    return np.concatenate([batch["input_ids"] for batch in batches])


def same(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert a.keys() == b.keys()
        for name in a:
            np.testing.assert_array_equal(a[name], b[name])


def test_types_and_shapes(shards):
    dataset = train(shards)
    assert dataset.element_spec == {
        "step": tf.TensorSpec([], tf.int64),
        "input_ids": tf.TensorSpec([16, 32], tf.int32),
        "attention_mask": tf.TensorSpec([16, 32], tf.int32),
    }


def test_each_epoch_has_every_example_once(shards):
    n = shards.manifest.splits["train"].counts["num_examples"]
    batches = take(train(shards, global_batch_size=1), 2 * n)
    rows = np.concatenate([batch["input_ids"] for batch in batches])
    wanted = sorted(map(tuple, all_rows(shards)))
    assert sorted(map(tuple, rows[:n])) == wanted
    assert sorted(map(tuple, rows[n:])) == wanted
    assert not np.array_equal(rows[:n], rows[n:])


@pytest.mark.parametrize("start", [0, 1, 7, 63, 64, 500])
def test_starting_at_a_step_gives_what_going_there_gives(shards, start):
    same(take(train(shards, start_step=start), 5), take(train(shards), start + 5)[start:])


@pytest.mark.parametrize("num_processes", [2, 4])
def test_the_parts_of_hosts_make_one_batch(shards, num_processes):
    whole = take(train(shards), 30)
    parts = [
        take(train(shards, process_index=index, num_processes=num_processes), 30)
        for index in range(num_processes)
    ]
    for step in range(30):
        for name in ("input_ids", "attention_mask"):
            joined = np.concatenate([part[step][name] for part in parts])
            np.testing.assert_array_equal(joined, whole[step][name])
        assert {int(part[step]["step"]) for part in parts} == {step}


def test_a_batch_larger_than_the_epoch(shards):
    n = shards.manifest.splits["validation"].counts["num_examples"]
    size = 2 * n + 1
    (batch,) = take(train(shards, split="validation", global_batch_size=size), 1)
    wanted = sorted(map(tuple, all_rows(shards, "validation")))
    assert sorted(map(tuple, batch["input_ids"][:n])) == wanted
    assert sorted(map(tuple, batch["input_ids"][n : 2 * n])) == wanted


def test_what_came_before_is_not_read(shards, monkeypatch):
    # The window that is asked for and those that are read ahead, of two shards each.
    from clozeflow.shards import fetch

    read = []
    read_shard = fetch.read_shard
    monkeypatch.setattr(
        fetch,
        "read_shard",
        lambda s, entry, cache: read.append(entry) or read_shard(s, entry, cache),
    )
    take(train(shards, start_step=10**9), 1)
    assert 0 < len(read) <= 6


def test_evaluation_is_in_order_and_whole(shards):
    for batch_size in (7, 64, 10_000):
        batches = list(
            reader.eval_batches(shards, split="train", batch_size=batch_size).as_numpy_iterator()
        )
        rows = np.concatenate([batch["row"] for batch in batches])
        np.testing.assert_array_equal(
            rows, np.arange(shards.manifest.splits["train"].counts["num_examples"])
        )
        assert all(len(batch["row"]) == batch_size for batch in batches[:-1])
        np.testing.assert_array_equal(
            np.concatenate([batch["input_ids"] for batch in batches]), all_rows(shards)
        )


def test_files_are_read_as_tensorflow_reads_them(shards):
    feature = tf.io.FixedLenFeature([32], tf.int64)
    files = [shards.path(file.path) for file in shards.manifest.splits["train"].files]
    records = list(tf.data.TFRecordDataset(files))
    parsed = tf.io.parse_example(records, {"input_ids": feature, "attention_mask": feature})
    (batch,) = take(reader.eval_batches(shards, split="train", batch_size=len(records)), 1)
    np.testing.assert_array_equal(batch["input_ids"], parsed["input_ids"])
    np.testing.assert_array_equal(batch["attention_mask"], parsed["attention_mask"])


@pytest.fixture()
def copy(shards, tmp_path) -> Artifact:
    folder = tmp_path / "copy"
    shutil.copytree(shards.uri, folder)
    return Artifact(uri=str(folder), manifest=shards.manifest)


def last_file(shards: Artifact, split: str = "train") -> Path:
    return Path(shards.path(shards.manifest.splits[split].files[-1].path))


def test_a_cut_shard_is_refused_at_once(copy):
    path = last_file(copy)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match=f"{path.name}.*another length"):
        train(copy)


def test_a_missing_shard_is_refused_at_once(copy):
    last_file(copy).unlink()
    with pytest.raises(UserError, match="is missing"):
        train(copy)


@pytest.mark.parametrize(
    "start", [train, lambda s: reader.eval_batches(s, split="train", batch_size=1)]
)
def test_a_changed_byte_is_refused_before_the_first_step(copy, start):
    path = last_file(copy)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"{path.name}.*other content"):
        start(copy)


def test_a_split_without_examples_is_refused(shards):
    with pytest.raises(UserError, match="no examples in the split 'test'"):
        train(shards, split="test")


@pytest.mark.parametrize(
    ("size", "index", "count"), [(15, 0, 2), (0, 0, 1), (16, 2, 2), (16, -1, 2)]
)
def test_impossible_divisions_are_refused(shards, size, index, count):
    with pytest.raises(UserError):
        train(shards, global_batch_size=size, process_index=index, num_processes=count)


def test_a_shard_that_changes_while_training_stops_it_with_its_name(copy):
    dataset = train(copy, start_step=0)
    path = last_file(copy)
    path.write_bytes(path.read_bytes()[::-1])
    with pytest.raises(tf.errors.OpError) as caught:
        take(dataset, 10_000)
    error = reader.original_error(caught.value)
    assert error is not None
    assert path.name in str(error)
    assert "other content" in str(error)


def test_gzipped_shards_are_read_alike(shards, corpus, tokenizer, tmp_path):
    packed = fixtures.make_shards(
        tmp_path / "packed",
        corpus=corpus,
        tokenizer=tokenizer,
        examples_per_shard=64,
        compression="gzip",
    )
    files = packed.manifest.splits["train"].files
    assert all(file.path.endswith(".tfrecord.gz") for file in files)
    assert sum(f.num_bytes for f in files) < sum(
        f.num_bytes for f in shards.manifest.splits["train"].files
    )
    same(take(train(packed), 20), take(train(shards), 20))
    names = [packed.path(file.path) for file in files]
    records = list(tf.data.TFRecordDataset(names, compression_type="GZIP"))
    assert len(records) == packed.manifest.splits["train"].counts["num_examples"]


def test_a_program_may_end_while_a_batch_is_being_read(shards):
    command = [sys.executable, "-m", "tests.shards.leaving", shards.uri]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "read\n"
