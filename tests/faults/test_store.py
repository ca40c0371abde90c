"""A store that fails: a stage ends in the calm run's bytes, or names the object and leaves off."""

import dataclasses
import os
import time
from pathlib import Path

import pytest

from clozeflow import storage
from clozeflow.verification import verify
from tests.faults import pipeline
from tests.faults.pipeline import Pipeline
from tests.faults.proxy import SLOW_SECONDS, FailingStore, Fault

SEED = 11
SHARE = 0.08
STALLED = {**pipeline.SMALL_UNITS, "clozeflow.remote:STALLED_SECONDS": SLOW_SECONDS / 2}
"""A store is not waited for as long as it takes, when it is slow, to answer."""
SLOW_STAGES = ("train", "evaluate", "corpus")


@pytest.fixture(scope="module")
def remote(calm, bucket) -> Pipeline:
    """The calm run's text and artifacts in a bucket."""
    folders = [(calm.pipeline.folder, f"{bucket}/calm"), (calm.pipeline.sources, f"{bucket}/text")]
    for source, target in folders:
        fs, path = storage.filesystem(target)
        for file in Path(source).rglob("*"):
            if file.is_file():
                fs.put_file(str(file), f"{path}/{file.relative_to(source)}")
    return Pipeline(folder=f"{bucket}/calm", sources=calm.pipeline.sources, text=f"{bucket}/text")


@pytest.fixture
def failing(monkeypatch):
    """Puts a failing store before the bucket, for commands that are started then."""
    stores = []

    def failing(**settings) -> FailingStore:
        store = FailingStore(os.environ["STORAGE_EMULATOR_HOST"], seed=SEED, **settings)
        stores.append(store.__enter__())
        return store

    yield failing
    for store in stores:
        store.__exit__()


def run(store: FailingStore, arguments: list) -> pipeline.Ended:
    """A command that knows the bucket by way of the failing store alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", store.url)
        patch.setenv("FSSPEC_GS_TOKEN", "anon")
        return pipeline.run(arguments, constants=STALLED, haste=20)


@pytest.mark.parametrize(
    "stage",
    [pytest.param(s, marks=pytest.mark.slow if s in SLOW_STAGES else ()) for s in pipeline.STAGES],
)
def test_a_stage_ends_in_the_same_bytes(calm, remote, bucket, failing, stage):
    own = dataclasses.replace(remote, publish_to=f"{bucket}/shaken/published")
    output = f"{bucket}/shaken/{stage}"
    store = failing(share=SHARE)
    ended = run(store, own.arguments(stage, output=output))
    assert ended.code == 0, ended.errors
    assert sum(store.counts[fault] for fault in Fault) >= 2, store.counts
    found = pipeline.result(output)
    assert [name for name in storage.list_files(output) if name.startswith(".")] == []
    verify(output)
    expected = calm.result(stage)
    if stage == "corpus":  # text is known by the store's own hashes there
        del expected["fingerprint"], found["fingerprint"]
    if stage == "publish":
        verify(f"{bucket}/shaken/published")
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("stage", "lost"),
    [
        ("shard", "calm/corpus/train/part-00001"),
        ("tokenizer", "calm/corpus/manifest.json"),
        ("shard", "OUTPUT/train/shard-00002"),
        pytest.param("shard", "OUTPUT/.work/key", marks=pytest.mark.slow),
        ("publish", "OUTPUT/manifest.json"),
    ],
)
def test_an_object_that_cannot_be_had(remote, bucket, failing, tmp_path, stage, lost):
    """Read or written, it is named, and nothing is left that looks finished."""
    output = f"{bucket}/{tmp_path.name}"
    lost = lost.replace("OUTPUT", tmp_path.name)
    own = dataclasses.replace(remote, publish_to=f"{output}-to")
    store = failing(share=1.0, only=lost, faults=(Fault.UNAVAILABLE, Fault.LOST))
    start = time.monotonic()
    ended = run(store, own.arguments(stage, output=output))
    assert ended.code == 2, ended.errors
    assert "Traceback" not in ended.errors
    assert lost in ended.errors and "asked several times" in ended.errors
    assert time.monotonic() - start < 60
    storage.filesystem(output)[0].invalidate_cache()
    assert not storage.is_file(f"{output}/manifest.json")
    ended = run(failing(share=0), own.arguments(stage, output=output))
    assert ended.code == 0, ended.errors
    pipeline.result(output)
    verify(output)


def test_a_store_that_says_nothing(remote, bucket, failing):
    """It is not waited for without end."""
    store = failing(share=1.0, faults=(Fault.SLOW,))
    ended = run(store, remote.arguments("shard", output=f"{bucket}/silent"))
    assert ended.code == 2, ended.errors
    assert f"error: {bucket}/" in ended.errors and "Traceback" not in ended.errors
