"""The folder of a run: the artifacts of its tasks, and a record of all that happened.

    OUTPUT/latest -> pretrain-001
    OUTPUT/pretrain-001/run.json             settings, versions, times, how it ended
    OUTPUT/pretrain-001/record/train.json    executor input and output, times, exit code
    OUTPUT/pretrain-001/record/train.log     what the task printed
    OUTPUT/pretrain-001/train/model/         the artifact itself

A run that did not end well is taken up again by the next run with the same settings; each run
that ended well keeps its folder.
"""

import datetime
import enum
import fcntl
import json
import os
import platform
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import IO, Any, Self

import clozeflow
from clozeflow.errors import UserError
from clozeflow.stages import code_fingerprint

RUN_FILE = "run.json"
RECORD_FOLDER = "record"
LATEST = "latest"


class Status(enum.StrEnum):
    """How a run or a task stands."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


def now() -> str:
    """The time, in UTC."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def write_json(path: Path, value: Any) -> None:
    """Writes a file as a whole: a reader sees the old content or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".tmp-{path.name}")
    temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")
    temporary.replace(path)


class RunFolder:
    """The folder of one run, held by this process as long as it is open."""

    def __init__(self, path: Path, lock: IO[str], facts: Mapping[str, Any]) -> None:
        self.path = path
        self.facts = dict(facts)
        self._lock = lock

    @classmethod
    def open(cls, output: Path, pipeline: str, arguments: Mapping[str, Any]) -> Self:
        """The folder to run in: the last one if it is unfinished and the same, else a new one."""
        identity = {
            "pipeline": pipeline,
            "parameters": dict(arguments),
            "clozeflow": clozeflow.__version__,
            "code": code_fingerprint(),
        }
        numbers = run_numbers(output, pipeline)
        if numbers and (run := cls._resume(output / f"{pipeline}-{numbers[-1]:03d}", identity)):
            return run
        path = output / f"{pipeline}-{(numbers or [0])[-1] + 1:03d}"
        try:
            path.mkdir(parents=True)
        except OSError as error:
            raise UserError(
                f"--output {output}", f"cannot be used: {error.strerror}", fix="Give another."
            ) from error
        lock = _lock(path)
        assert lock is not None
        run = cls(path, lock, {**identity, "versions": _versions()})
        run.start()
        return run

    @classmethod
    def _resume(cls, path: Path, identity: Mapping[str, Any]) -> Self | None:
        try:
            facts = json.loads((path / RUN_FILE).read_text())
        except (OSError, ValueError):
            return None
        is_same = all(facts.get(key) == value for key, value in identity.items())
        if not is_same or facts["status"] == Status.SUCCEEDED:
            return None
        lock = _lock(path)
        if lock is None:  # another process is at it
            return None
        run = cls(path, lock, facts)
        run.start()
        return run

    def start(self) -> None:
        """Notes that the run begins (again)."""
        self._note(status=Status.RUNNING, started=now(), ended=None)
        link = self.path.parent / LATEST
        temporary = link.with_name(f".tmp-{LATEST}")
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(self.path.name)
        temporary.replace(link)

    def end(self, status: Status) -> None:
        """Notes how the run ended, and lets another process have it."""
        self._note(status=status, ended=now())
        self._lock.close()

    @property
    def lock_descriptor(self) -> int:
        """Inherited by tasks: the folder stays held while an orphan of this process lives."""
        return self._lock.fileno()

    def log_path(self, task: str) -> Path:
        """Where a task's output is kept."""
        return self.path / RECORD_FOLDER / f"{task}.log"

    def write_task(self, task: str, record: Mapping[str, Any]) -> None:
        """Keeps the record of a task."""
        write_json(self.path / RECORD_FOLDER / f"{task}.json", record)

    def _note(self, **facts: Any) -> None:
        self.facts.update(facts)
        write_json(self.path / RUN_FILE, self.facts)


def run_numbers(output: Path, pipeline: str) -> list[int]:
    """The numbers of a pipeline's runs in an output folder, in order."""
    pattern = re.compile(rf"{re.escape(pipeline)}-(\d{{3,}})")
    names = os.listdir(output) if output.is_dir() else []
    return sorted(int(match[1]) for name in names if (match := pattern.fullmatch(name)))


def read_tasks(run: Path) -> list[dict[str, Any]]:
    """The records of a run's tasks, in the order in which they started."""
    files = (run / RECORD_FOLDER).glob("*.json")
    return sorted((json.loads(file.read_text()) for file in files), key=lambda r: r["started"])


def _lock(path: Path) -> IO[str] | None:
    """A file held by this process alone, or None if another holds it."""
    file = (path / ".lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), "kfp": metadata.version("kfp")}
