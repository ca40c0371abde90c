"""The TPU compiler as a process of its own: asked, waited for, and its answers kept.

What the compiler says of a module depends on the module, the topology and the compiler's version
alone: under these its answers are kept, and asked for only once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import fcntl
import gzip
import json
import logging
import os
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from clozeflow import artifacts, cache
from clozeflow.preflight import compiler_log, processes, tpu_compiler
from clozeflow.preflight.topologies import Topology

logger = logging.getLogger(__name__)

PYTHON_VARIABLE = "CLOZEFLOW_PREFLIGHT_PYTHON"
"""Where the preflight environment's Python is, if not at one of the usual places."""
_PLACES = (Path("/opt/clozeflow-preflight"), Path(".venv-preflight"))
_PACKAGES = ("jax", "jaxlib", "libtpu")
_VERSIONS_CODE = (
    "import importlib.metadata as m, json; "
    f"print(json.dumps({{p: m.version(p) for p in {_PACKAGES!r}}}))"
)
_CACHE_FOLDER = "preflight"


class Status(enum.StrEnum):
    """How an attempt to compile ended."""

    COMPILED = "compiled"
    PLACED = "placed"
    """The compiler has found room for everything, and was not asked for the rest."""
    OUT_OF_MEMORY = "out_of_memory"
    """The compiler says that the program does not fit."""
    UNAVAILABLE = "unavailable"
    """No compiler, a crash, a time limit, anything else: it says nothing of the program."""


class Until(enum.StrEnum):
    """How far the compiler goes. Memory is settled early; most of its time goes into the rest."""

    PLACED = "placed"
    COMPILED = "compiled"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compilation:
    """What the compiler says of a module."""

    status: Status
    message: str = ""
    """The compiler's own words, or why there are none."""
    figures: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """See `tpu_compiler.figures`; empty unless it was compiled."""
    memory: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """What the compiler's log says on the way: see `compiler_log.read`."""
    text: str = ""
    """The compiled program, in XLA's notation."""

    @classmethod
    def unavailable(cls, reason: str) -> Self:
        """One that says nothing of the program."""
        return cls(status=Status.UNAVAILABLE, message=reason)


def find_python() -> Path | None:
    """The Python of the preflight environment; None where there is none."""
    named = os.environ.get(PYTHON_VARIABLE)
    if named:
        return Path(named) if Path(named).is_file() else None
    # An editable install's root is where `make preflight-env` puts it, whatever the folder now.
    root = Path(__file__).parents[3] / _PLACES[1]
    found = [place / "bin" / "python" for place in (*_PLACES, root)]
    return next((path for path in found if path.is_file()), None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TpuCompiler:
    """The compiler in its environment."""

    python: Path
    versions: Mapping[str, str]
    """Of its packages."""
    cache_folder: Path
    time_limit_seconds: float
    """For one module."""

    @classmethod
    def find(cls, *, time_limit_seconds: float) -> Self | Compilation:
        """The compiler of this machine, or what says that there is none."""
        python = find_python()
        if python is None:
            return Compilation.unavailable(
                f"there is no preflight environment (run `make preflight-env`, or name its Python "
                f"in {PYTHON_VARIABLE})"
            )
        try:
            done = processes.run([str(python), "-c", _VERSIONS_CODE], time_limit_seconds=60)
        except processes.NoAnswer as error:
            return Compilation.unavailable(f"{python} has no compiler: {error}")
        return cls(
            python=python,
            versions=json.loads(done.output),
            cache_folder=cache.default_folder() / _CACHE_FOLDER,
            time_limit_seconds=time_limit_seconds,
        )

    def compile(
        self, module: bytes, *, fingerprint: str, topology: Topology, until: Until = Until.COMPILED
    ) -> Compilation:
        """The compiler's answer, from the cache if it was given before.

        Args:
            module: A serialised HLO module of one replica's step.
            fingerprint: Of the module: see `module.fingerprint`.
            topology: What to compile for.
            until: How far to go.
        """
        whole = self._entry(fingerprint, topology, Until.COMPILED)
        entry = self._entry(fingerprint, topology, until)
        for place in (whole, entry):
            if kept := _kept(place):
                return kept
        answer = self._ask(module, topology, until)
        if answer.status is not Status.UNAVAILABLE:
            _keep(entry, answer)
        return answer

    def _entry(self, fingerprint: str, topology: Topology, until: Until) -> Path:
        asked = [fingerprint, dataclasses.asdict(topology), dict(self.versions), until.value]
        key = artifacts.fingerprint_of(asked).removeprefix("sha256:")
        return self.cache_folder / f"{key}.json.gz"

    def _ask(self, module: bytes, topology: Topology, until: Until) -> Compilation:
        with tempfile.TemporaryDirectory(prefix="clozeflow-preflight-") as folder:
            path, text = Path(folder, "step.hlo"), Path(folder, "compiled.txt")
            path.write_bytes(module)
            command = [str(self.python), tpu_compiler.__file__, "--topology", topology.name]
            command += ["--chips-per-host", topology.chips_per_host]
            command += ["--num-replicas", str(topology.num_replicas)]
            command += ["--module", str(path), "--text", str(text)]
            stop_at = compiler_log.PLACED if until is Until.PLACED else None
            try:
                with _alone():
                    done = processes.run(
                        command, time_limit_seconds=self.time_limit_seconds, stop_at=stop_at
                    )
            except processes.NoAnswer as error:
                return Compilation.unavailable(f"the compiler gave no answer: {error}")
            memory = compiler_log.read(done.log)
            if done.was_stopped:
                return Compilation(status=Status.PLACED, memory=memory)
            program = text.read_text("utf-8") if text.is_file() else ""
            return dataclasses.replace(read_answer(done.output, program), memory=memory)


def read_answer(output: str, text: str) -> Compilation:
    """The compiler process's output, understood.

    Args:
        output: What it printed.
        text: The compiled program.
    """
    try:
        answer: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
        status = answer.pop("status")
    except (ValueError, LookupError, AttributeError, TypeError):
        return Compilation.unavailable(f"the compiler's answer is not understood: {output[-300:]}")
    message = answer.pop("message", "")
    if status == Status.COMPILED:
        return Compilation(status=Status.COMPILED, figures=answer, text=text)
    if status == Status.OUT_OF_MEMORY:
        return Compilation(status=Status.OUT_OF_MEMORY, message=message)
    return Compilation.unavailable(f"the compiler refused the step: {message[:500]}")


def lock_path() -> Path:
    """The file that whoever uses libtpu holds."""
    return Path(tempfile.gettempdir(), f"clozeflow-libtpu-{os.getuid()}.lock")


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Waits until no other process of this machine is in here: libtpu bears one at a time."""
    path = lock_path()
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _kept(entry: Path) -> Compilation | None:
    """An earlier answer; one that cannot be read is none."""
    try:
        kept = json.loads(gzip.decompress(entry.read_bytes()))
        return Compilation(**{**kept, "status": Status(kept["status"])})
    except (OSError, EOFError, ValueError, TypeError, KeyError, zlib.error):
        return None


def _keep(entry: Path, answer: Compilation) -> None:
    """Writes the answer to the cache; without one, work is only done again."""
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        new = entry.with_name(f"{entry.name}.{os.getpid()}")
        new.write_bytes(gzip.compress(json.dumps(dataclasses.asdict(answer)).encode(), mtime=0))
        new.replace(entry)
    except OSError as error:
        logger.warning("the compiler's answer is not kept: %s", error)
