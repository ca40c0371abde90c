"""Shards in an object store, by way of the emulator of Google Cloud Storage."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from clozeflow import artifacts, storage
from clozeflow.artifacts import Artifact
from clozeflow.errors import UserError
from clozeflow.shards import order, reader
from clozeflow.shards.fetch import ShardCache
from tests.shards import fixtures


@pytest.fixture(scope="module")
def remote(shards, bucket) -> Artifact:
    """The shards of the other tests, in the store."""
    uri = f"{bucket}/shards"
    for name in storage.list_files(shards.uri):
        storage.copy_file(shards.path(name), storage.join(uri, name))
    return artifacts.Artifact(uri=uri, manifest=artifacts.read_manifest(uri))


@pytest.fixture
def cache(tmp_path) -> ShardCache:
    return ShardCache(folder=tmp_path / "cache")


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch):
    monkeypatch.setattr(order, "WINDOW_TOKENS", 2 * 64 * 32)


def take(shards: Artifact, count: int, **settings) -> list[np.ndarray]:
    dataset = reader.train_batches(shards, global_batch_size=16, seed=1, **settings)
    return [b["input_ids"] for b in itertools.islice(dataset.as_numpy_iterator(), count)]


def num_copies(cache: ShardCache) -> int:
    return len(list(Path(cache.folder).glob("*.tfrecord")))


def test_the_batches_are_those_of_local_shards(shards, remote, cache):
    np.testing.assert_array_equal(take(remote, 12, cache=cache), take(shards, 12))
    assert num_copies(cache) > 0


def test_copies_serve_the_next_epoch(remote, cache, monkeypatch):
    num_files = len(remote.manifest.splits["train"].files)
    num_batches = remote.manifest.splits["train"].counts["num_examples"] // 16 + 1
    take(remote, 2 * num_batches, cache=cache)
    assert num_copies(cache) == num_files

    def unwanted(location):
        raise AssertionError(f"fetched again: {location}")

    monkeypatch.setattr(storage, "read_bytes", unwanted)
    take(remote, num_batches, cache=cache)


def test_the_cache_is_bounded(remote, tmp_path):
    sizes = sorted(file.num_bytes for file in remote.manifest.splits["train"].files)
    small = ShardCache(folder=tmp_path / "small", max_bytes=2 * sizes[-1] + 10)
    num_batches = remote.manifest.splits["train"].counts["num_examples"] // 16
    take(remote, num_batches, cache=small)
    held = sum(path.stat().st_size for path in small.folder.glob("*"))
    assert 0 < held <= small.max_bytes


def test_a_damaged_copy_is_fetched_again(shards, remote, cache):
    take(remote, 12, cache=cache)
    for path in cache.folder.glob("*.tfrecord"):
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    np.testing.assert_array_equal(take(remote, 12, cache=cache), take(shards, 12))


def test_a_changed_object_is_refused(remote, cache, bucket):
    uri = f"{bucket}/changed"
    for name in storage.list_files(remote.uri):
        storage.copy_file(remote.path(name), storage.join(uri, name))
    changed = Artifact(uri=uri, manifest=remote.manifest)
    entry = remote.manifest.splits["validation"].files[0]
    content = bytearray(storage.read_bytes(changed.path(entry.path)))
    content[40] ^= 1
    storage.write_bytes(changed.path(entry.path), bytes(content))
    dataset = reader.eval_batches(changed, split="validation", batch_size=4, cache=cache)
    with pytest.raises(reader.tf.errors.OpError) as caught:
        list(dataset)
    assert "other content" in str(reader.original_error(caught.value))
    assert num_copies(cache) == 0
    storage.write_bytes(changed.path(entry.path), bytes(content[:-8]))
    with pytest.raises(UserError, match="another length"):
        reader.eval_batches(changed, split="validation", batch_size=4, cache=cache)


def test_the_stage_writes_to_the_store(shards, corpus, tokenizer, bucket):
    made = fixtures.make_shards(
        f"{bucket}/made", corpus=corpus, tokenizer=tokenizer, examples_per_shard=64
    )
    assert made.manifest.fingerprint == shards.manifest.fingerprint
    found = [name for name in storage.list_files(made.uri) if name != "manifest.json"]
    assert found == [name for name in storage.list_files(shards.uri) if name != "manifest.json"]
    artifacts.check_files(made.uri, made.manifest.all_files())
