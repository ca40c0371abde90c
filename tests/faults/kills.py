"""One run of a stage that is killed while it works, started again, and compared with a calm one."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from clozeflow.errors import UserError
from clozeflow.verification import verify
from tests.faults import pipeline
from tests.faults.pipeline import Pipeline

_HANGS_SECONDS = 240
_SURVIVES_SECONDS = 15
_ATTEMPTS = 4
_TRACEBACK = "Traceback (most recent call last)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Calm:
    """A run to which nothing happened."""

    pipeline: Pipeline
    seconds: dict[str, float]
    """How long each stage took."""

    def result(self, stage: str) -> dict[str, str]:
        """What the stage made."""
        return pipeline.result(self.pipeline.output(stage))


@dataclasses.dataclass(kw_only=True)
class Report:
    """What became of one run."""

    stage: str
    how: str
    """SIGKILL or SIGTERM, to the command or to one of the processes below it."""
    moments: list[float] = dataclasses.field(default_factory=list)
    """Seconds after the start of each attempt that was killed."""
    codes: list[int] = dataclasses.field(default_factory=list)
    """Exit codes of all attempts."""
    faults: list[str] = dataclasses.field(default_factory=list)
    """What should not be: none where all is well."""
    retries_seconds: float = 0.0
    """What the last attempt took."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-serialisable values."""
        return dataclasses.asdict(self)


def kill_randomly(
    calm: Calm, stage: str, folder: Path, draw: random.Random, **faults: Any
) -> Report:
    """Kills a stage at a random moment of its calm duration, then runs it to its end.

    Args:
        calm: What to compare with; its artifacts are the stage's inputs.
        stage: Which one.
        folder: An empty folder for what is made.
        draw: Chooses the signal, the process and the moment.
        faults: See `sitecustomize`.
    """
    sent = draw.choice([signal.SIGKILL, signal.SIGTERM])
    whom = draw.choice(["command", "command", "worker"])
    moment = draw.uniform(0, calm.seconds[stage])
    report = Report(stage=stage, how=f"{sent.name} {whom}", moments=[round(moment, 3)])
    arguments = _arguments(calm, stage, folder)
    process, errors = _start(arguments, folder / "errors.txt", **faults)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(moment)
    if process.poll() is None:
        target = process.pid if whom == "command" else _below(process.pid, draw)
        with contextlib.suppress(ProcessLookupError):
            os.kill(target, sent)
    _wait(process, errors, report)
    finish(calm, stage, folder, report, **faults)
    return report


def kill_at_event(calm: Calm, stage: str, folder: Path, event: int, **faults: Any) -> Report:
    """Kills a stage before its so-many-th file operation, then runs it to its end."""
    report = Report(stage=stage, how=f"SIGKILL before file operation {event}")
    kill = {"below": str(folder), "event": event}
    process, errors = _start(
        _arguments(calm, stage, folder), folder / "errors.txt", kill_at=kill, **faults
    )
    _wait(process, errors, report)
    finish(calm, stage, folder, report, **faults)
    return report


def kill_after(calm: Calm, stage: str, folder: Path, name: str, **faults: Any) -> Report:
    """Kills a stage when a file of that name has appeared, then runs it to its end."""
    report = Report(stage=stage, how=f"SIGKILL after {name}")
    process, errors = _start(_arguments(calm, stage, folder), folder / "errors.txt", **faults)
    while process.poll() is None and not list(folder.rglob(name)):
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    _wait(process, errors, report)
    finish(calm, stage, folder, report, **faults)
    return report


def finish(calm: Calm, stage: str, folder: Path, report: Report, **faults: Any) -> None:
    """Runs the stage until it is done, and compares."""
    arguments = _arguments(calm, stage, folder)
    for _ in range(_ATTEMPTS):
        start = time.monotonic()
        process, errors = _start(arguments, folder / "errors.txt", **faults)
        _wait(process, errors, report)
        report.retries_seconds = round(time.monotonic() - start, 2)
        if report.codes[-1] == 0:
            break
        said = errors.read_text().strip().splitlines()[-1:]
        report.faults.append(f"run again, it ended with {report.codes[-1]}: {''.join(said)[:300]}")
    else:
        return
    compare(calm, stage, folder, report)


def compare(calm: Calm, stage: str, folder: Path, report: Report) -> None:
    """Adds to the report what is not as in the calm run."""
    output = folder / pipeline.OUTPUTS[stage]
    if not output.is_dir():
        report.faults.append("there is no artifact")
        return
    found = pipeline.differences(calm.result(stage), pipeline.result(str(output)))
    report.faults += [f"differs: {name}" for name in found if stage != "publish"]
    hidden = [str(p.relative_to(output)) for p in output.rglob(".*")]
    report.faults += [f"left: {name}" for name in hidden]
    try:
        verify(str(output))
    except UserError as error:
        report.faults.append(f"verify: {error}")
    if stage == "publish":
        expected = pipeline.hashes(calm.pipeline.published())
        other = pipeline.differences(expected, pipeline.hashes(str(folder / pipeline.PUBLISHED)))
        report.faults += [f"published: {name}" for name in other]


def _arguments(calm: Calm, stage: str, folder: Path) -> list[str]:
    own = dataclasses.replace(calm.pipeline, publish_to=str(folder / pipeline.PUBLISHED))
    return own.arguments(stage, output=str(folder / pipeline.OUTPUTS[stage]))


def _start(
    arguments: list[str], errors: Path, **faults: Any
) -> tuple[subprocess.Popen[bytes], Path]:
    with errors.open("wb") as file:
        process = subprocess.Popen(
            pipeline.command(arguments),
            env=pipeline.environment(**faults),
            stdout=subprocess.DEVNULL,
            stderr=file,
            start_new_session=True,
        )
    return process, errors


def _wait(process: subprocess.Popen[bytes], errors: Path, report: Report) -> None:
    """Waits for the command and for all that it started."""
    try:
        report.codes.append(process.wait(_HANGS_SECONDS))
    except subprocess.TimeoutExpired:
        report.faults.append("hangs")
        os.killpg(process.pid, signal.SIGKILL)
        report.codes.append(process.wait())
    until = time.monotonic() + _SURVIVES_SECONDS
    while (left := members(process.pid)) and time.monotonic() < until:
        time.sleep(0.02)
    if left:
        report.faults.append(f"{len(left)} processes outlive the command")
        os.killpg(process.pid, signal.SIGKILL)
    text = errors.read_text(errors="replace")
    # Python's own watcher of semaphores, if it is what was killed, complains of what it never knew.
    if text.count(_TRACEBACK) > text.count("multiprocessing/resource_tracker.py"):
        report.faults.append(f"a traceback: {text.strip()[-600:]}")


def members(session: int) -> list[int]:
    """The living processes of a session: the command and all below it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    found.append(int(entry.name))
    return sorted(found)


def _below(session: int, draw: random.Random) -> int:
    """One of the processes that a command started, or itself if it started none."""
    others = [pid for pid in members(session) if pid != session]
    return draw.choice(others) if others else session


def empty(folder: Path) -> Path:
    """A new folder in place of what was there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
