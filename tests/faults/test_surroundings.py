"""Disks, memory, clocks and second runs that are not as one would have them."""

import dataclasses
import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.faults import kills, pipeline
from tests.faults.kills import Report
from tests.faults.pipeline import Ended

WAIT_SECONDS = 120


def arguments(calm, stage, folder, **settings):
    own = dataclasses.replace(calm.pipeline, publish_to=str(folder / pipeline.PUBLISHED))
    return own.arguments(stage, output=str(folder / pipeline.OUTPUTS[stage]), **settings)


def check_refused(ended, *words):
    assert ended.code == 2, ended.errors
    assert "Traceback" not in ended.errors
    for word in words:
        assert word in ended.errors


def finish(calm, stage, folder, how):
    """Runs the stage with nothing in its way and compares."""
    report = Report(stage=stage, how=how)
    kills.finish(calm, stage, folder, report)
    assert not report.faults, report


def mount(*options):
    done = subprocess.run(
        ["mount", *map(str, options)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own, of a size that is given later."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount("-t", "tmpfs", "-o", "size=64k", "clozeflow-test", folder)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=False)


@pytest.mark.parametrize("stage", ["corpus", "shard", "tokenizer", "publish"])
def test_a_full_disk(calm, small_disk, stage):
    """It is said in words, whoever met it, and with room the same command goes on."""
    ended = pipeline.run(arguments(calm, stage, small_disk))
    check_refused(ended, "the disk is full", str(small_disk))
    assert not (small_disk / pipeline.OUTPUTS[stage] / "manifest.json").exists()
    mount("-o", "remount,size=64m", small_disk)
    finish(calm, stage, small_disk, "a full disk")


@pytest.mark.parametrize("kilobytes", [400, 900])
def test_a_full_disk_in_training(calm, small_disk, kilobytes):
    """Full at the second checkpoint, or when the model is exported."""
    mount("-o", f"remount,size={kilobytes}k", small_disk)
    ended = pipeline.run(arguments(calm, "train", small_disk))
    check_refused(ended, "the disk is full")
    assert not (small_disk / "model" / "manifest.json").exists()
    mount("-o", "remount,size=64m", small_disk)
    finish(calm, "train", small_disk, "a full disk")


@pytest.mark.parametrize("stage", ["shard", "publish"])
def test_a_read_only_folder(calm, small_disk, stage):
    mount("-o", "remount,ro", small_disk)
    check_refused(pipeline.run(arguments(calm, stage, small_disk)), "Read-only", str(small_disk))
    mount("-o", "remount,rw,size=64m", small_disk)
    finish(calm, stage, small_disk, "read-only")


def test_a_finished_artifact_may_be_read_only(calm, small_disk):
    mount("-o", "remount,size=64m", small_disk)
    pipeline.run_well(arguments(calm, "shard", small_disk))
    mount("-o", "remount,ro", small_disk)
    assert "already done" in pipeline.run_well(arguments(calm, "shard", small_disk)).errors


def test_files_that_may_not_grow(calm, tmp_path):
    """A quota by RLIMIT_FSIZE, where no small disk can be mounted."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = subprocess.run(
        pipeline.command(arguments(calm, "shard", tmp_path)),
        env=pipeline.environment(),
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    ended = Ended(code=done.returncode, errors=done.stderr, seconds=0)
    check_refused(ended, "File too large", str(tmp_path))
    finish(calm, "shard", tmp_path, "quota")


@pytest.mark.parametrize("stage", ["corpus", "shard"])
def test_a_clock_that_leaps(calm, tmp_path, stage):
    """To and fro by up to a year, twenty times a second, in every process."""
    ended = pipeline.run(arguments(calm, stage, tmp_path), clock=3.2e7)
    assert ended.code == 0, ended.errors
    finish(calm, stage, tmp_path, "a clock that leaps")


@pytest.mark.slow
def test_a_clock_that_leaps_in_training(calm, tmp_path):
    assert pipeline.run(arguments(calm, "train", tmp_path), clock=3.2e7).code == 0
    finish(calm, "train", tmp_path, "a clock that leaps")


def test_a_worker_killed_for_want_of_memory(calm, tmp_path):
    """As the system's killer does it: SIGKILL to whoever holds most, which is a worker."""
    process = subprocess.Popen(
        pipeline.command(arguments(calm, "corpus", tmp_path)),
        env=pipeline.environment(),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    runs = tmp_path / "corpus" / ".work" / "runs"
    while process.poll() is None and not any(runs.glob("*.arrow")):
        time.sleep(0.005)
    workers = [pid for pid in kills.members(process.pid) if _starts_units(pid)]
    os.kill(max(workers, key=_resident_pages), signal.SIGKILL)
    _, errors = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 2, errors
    assert "worker process: was killed from outside (often: out of memory)" in errors
    assert "fewer --num-workers" in errors and "Traceback" not in errors
    finish(calm, "corpus", tmp_path, "out of memory")


def _starts_units(pid: int) -> bool:
    """Whether a process is a worker: a child of the fork server."""
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return b"forkserver" in Path(f"/proc/{parent}/cmdline").read_bytes()


def _resident_pages(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1])


def test_two_runs_in_one_folder(calm, tmp_path):
    """The second is refused in words; the first is unharmed."""
    first = subprocess.Popen(
        pipeline.command(arguments(calm, "corpus", tmp_path)),
        env=pipeline.environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    key = tmp_path / "corpus" / ".work" / "key"
    while first.poll() is None and not key.exists():
        time.sleep(0.005)
    first.send_signal(signal.SIGSTOP)  # it shall not end before the second one has begun
    second = pipeline.run(arguments(calm, "corpus", tmp_path))
    first.send_signal(signal.SIGCONT)
    check_refused(second, str(tmp_path / "corpus"), "another run is at work in this folder")
    _, errors = first.communicate(timeout=WAIT_SECONDS)
    assert first.returncode == 0, errors
    finish(calm, "corpus", tmp_path, "two runs")


def test_a_run_killed_keeps_nobody_out(calm, tmp_path):
    """A lock file would: the system's own lock goes with the process."""
    report = kills.kill_at_event(calm, "publish", tmp_path, 12)
    assert report.codes == [-9, 0]
    assert not report.faults


def test_a_removed_folder_is_made_again(calm, tmp_path):
    pipeline.run_well(arguments(calm, "publish", tmp_path))
    shutil.rmtree(tmp_path / "publication")
    finish(calm, "publish", tmp_path, "removed")
