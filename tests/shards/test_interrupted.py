"""Killed at random moments, or out of room: the same command ends in the same bytes."""

import errno
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clozeflow import artifacts, storage
from clozeflow.artifacts import Artifact
from clozeflow.errors import UserError
from tests.shards import fixtures


def command(corpus: Artifact, tokenizer: Artifact, output: Path, *, workers: int = 1) -> list[str]:
    settings = ["--seq-len", "32", "--examples-per-shard", "64", "--num-workers", str(workers)]
    inputs = ["--corpus", corpus.uri, "--tokenizer", tokenizer.uri, "--output", str(output)]
    return [sys.executable, "-m", "clozeflow.cli", "shard", *inputs, *settings]


def content(folder: Path | str) -> dict[str, str]:
    names = [name for name in storage.list_files(str(folder)) if name != "manifest.json"]
    return {n: hashlib.sha256(Path(folder, n).read_bytes()).hexdigest() for n in names}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_at_random_moments(shards, corpus, tokenizer, tmp_path, workers):
    call = command(corpus, tokenizer, tmp_path / "made", workers=workers)
    started = time.monotonic()
    subprocess.run(command(corpus, tokenizer, tmp_path / "timed", workers=workers), check=True)
    whole_seconds = time.monotonic() - started
    moments = random.Random(workers)
    for _ in range(10):
        process = subprocess.Popen(call, start_new_session=True)
        try:
            process.wait(moments.uniform(0, whole_seconds))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    subprocess.run(call, check=True)
    made = artifacts.read_manifest(str(tmp_path / "made"))
    assert made.fingerprint == shards.manifest.fingerprint
    assert content(tmp_path / "made") == content(shards.uri)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 600 kB, which is less than the shards need."""
    image, folder = tmp_path / "disk", tmp_path / "mounted"
    folder.mkdir()
    image.write_bytes(bytes(600 * 1024))
    mkfs, mount = shutil.which("mkfs.ext4") or "/sbin/mkfs.ext4", shutil.which("mount")
    tmpfs = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(folder)]
    if not mount or subprocess.run(tmpfs, capture_output=True, check=False).returncode:
        made = [[mkfs, "-q", "-F", str(image)], ["mount", "-o", "loop", str(image), str(folder)]]
        if not Path(mkfs).exists() or any(
            subprocess.run(c, capture_output=True, check=False).returncode for c in made
        ):
            pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(corpus, tokenizer, small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(560 * 1024))
    call = command(corpus, tokenizer, small_disk / "made")
    full = subprocess.run(call, capture_output=True, text=True, check=False)
    assert full.returncode == 2
    assert "the disk is full" in full.stderr
    assert "run the same command again" in full.stderr
    assert "Traceback" not in full.stderr
    assert not artifacts.is_finished(str(small_disk / "made"))
    ballast.unlink()
    subprocess.run(call, check=True)
    made = artifacts.read_manifest(str(small_disk / "made"))
    artifacts.check_files(str(small_disk / "made"), made.all_files())
    assert made.splits["train"].counts["num_examples"] > 0


def test_a_full_disk_leaves_no_temporary_files(corpus, tokenizer, small_disk):
    (small_disk / "ballast").write_bytes(bytes(560 * 1024))
    subprocess.run(command(corpus, tokenizer, small_disk / "made"), check=False)
    assert not list(small_disk.rglob(f"{storage.TEMPORARY_PREFIX}*"))


class _FullDisk:
    """Files that refuse to take more bytes than there is room for, all of them together."""

    def __init__(self, room: int) -> None:
        self.room = room

    def open(self, path: Path, mode: str, open_path=Path.open):
        file = open_path(path, mode)
        return _LimitedFile(file, self) if "w" in mode else file


class _LimitedFile:
    def __init__(self, file, disk: _FullDisk) -> None:
        self._file, self._disk = file, disk

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self._file.close()

    def write(self, data: bytes) -> int:
        self._disk.room -= len(data)
        if self._disk.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._file.write(data)


@pytest.mark.parametrize("room", [10, 10_000, 20_000, 40_000])
def test_full_wherever_it_happens(shards, corpus, tokenizer, tmp_path, monkeypatch, room):
    """The same without a file system of its own, so that it can be tested by anybody."""
    settings = {"corpus": corpus, "tokenizer": tokenizer, "examples_per_shard": 64}
    disk = _FullDisk(room)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda path, mode="r": disk.open(path, mode))
        with pytest.raises(UserError, match="the disk is full"):
            fixtures.make_shards(tmp_path / "made", **settings)
    assert disk.room < 0
    assert not artifacts.is_finished(str(tmp_path / "made"))
    assert not list(tmp_path.rglob(f"{storage.TEMPORARY_PREFIX}*"))
    fixtures.make_shards(tmp_path / "made", **settings)
    assert content(tmp_path / "made") == content(shards.uri)


def test_two_sizes_of_parts_hold_the_same_tokens(tokenizer, tmp_path):
    totals = []
    for num_parts in (1, 4):
        corpus = fixtures.small_corpus(tmp_path / f"corpus{num_parts}", num_parts=num_parts)
        made = fixtures.make_shards(
            tmp_path / f"made{num_parts}", corpus=corpus, tokenizer=tokenizer
        )
        metrics = made.manifest.metrics
        totals.append((metrics["tokens_per_document"], metrics["tokens_per_byte"]))
    assert totals[0] == totals[1]
