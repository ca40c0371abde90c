"""Runs independent units of work: in this process, in a pool of them, or as a Beam pipeline.

A unit's function takes one argument and returns a JSON-serialisable result. With a ledger, the
result of each finished unit is written down, and a run that was killed redoes only the others.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import enum
import importlib
import json
import logging
import multiprocessing
import os
import shlex
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing import forkserver, resource_tracker
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from clozeflow import storage
from clozeflow.errors import UserError
from clozeflow.progress import progress

logger = logging.getLogger(__name__)

Unit = TypeVar("Unit")

LEDGER_FOLDER = ".units"
WORKER_SETTINGS = frozenset({"num_workers", "engine", "beam_args"})
"""A stage's settings that say what runs its units; none of them shapes the result."""
_RECORD = ".json"
_READS_AT_ONCE = 16


class Engine(enum.StrEnum):
    """What runs a stage's units of work."""

    PROCESS_POOL = "process_pool"
    """Processes of this machine."""
    BEAM = "beam"
    """An Apache Beam pipeline: Dataflow, Flink, Spark, or Beam's own runner here."""


@runtime_checkable
class HasWorkers(Protocol):
    """Settings that say what runs a stage's units; they do not shape its result."""

    @property
    def num_workers(self) -> int:
        """Processes; 0 means one a processor."""

    @property
    def engine(self) -> Engine:
        """What runs the units."""

    @property
    def beam_args(self) -> str:
        """Options of the Beam pipeline, as on a command line."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workers:
    """What runs units, and how many at once."""

    num_workers: int = 0
    """Processes; 0 means one a processor, 1 means this process. A Beam runner that is not of this
    machine has options of its own instead."""
    engine: Engine = Engine.PROCESS_POOL
    beam_args: str = ""
    """Options of the Beam pipeline, as on a command line."""

    @classmethod
    def of(cls, config: HasWorkers) -> Self:
        """As a stage's settings say."""
        return cls(num_workers=config.num_workers, engine=config.engine, beam_args=config.beam_args)


def check_workers(config: HasWorkers) -> None:
    """Refuses settings that no engine can work with.

    Raises:
        UserError: A number of workers below 0, or options of Beam that cannot be read or that
            nobody would read.
    """
    if config.num_workers < 0:
        raise UserError(
            "--num-workers",
            "is out of range",
            got=config.num_workers,
            expected="0 or more",
            fix="Give 0 for one process a processor.",
        )
    if config.beam_args and config.engine is not Engine.BEAM:
        raise UserError(
            "--beam-args",
            "is read by --engine beam alone",
            fix="Add --engine beam, or leave it out.",
        )
    try:
        shlex.split(config.beam_args)
    except ValueError as error:
        raise UserError(
            "--beam-args", f"cannot be split: {error}", fix="Check its quotes."
        ) from None


def check_reach(config: HasWorkers, locations: Iterable[str]) -> None:
    """Refuses, before any work, places that the workers could not reach.

    Raises:
        UserError: Beam is asked for and not installed, or a place of this machine is named to a
            runner that works on others.
    """
    if config.engine is Engine.BEAM:
        _beam().check_reach(config.beam_args, locations)


def start_early(config: object, module: str) -> None:
    """Begins to start what processes will come from, while this one is still getting ready.

    Args:
        config: A stage's settings; nothing happens where they ask for no processes.
        module: What the units' work will need.
    """
    if (
        isinstance(config, HasWorkers)
        and config.engine is Engine.PROCESS_POOL
        and (config.num_workers or default_num_workers()) > 1
    ):
        multiprocessing.set_forkserver_preload([module])
        _ensure_forkserver()


def _ensure_forkserver() -> None:
    """Starts what processes come from; they are deaf to Ctrl-C, which is this process's to obey."""
    resource_tracker.ensure_running()  # to start it sets the mask anew
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # a child inherits it
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def default_num_workers() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_units(
    work: Callable[[Unit], Any],
    units: Sequence[Unit],
    *,
    workers: Workers,
    description: str,
    ledger: str = "",
) -> list[Any]:
    """The results of `work` on every unit, in the units' order.

    Args:
        work: A module-level function (it is sent to other processes by its name).
        units: Picklable arguments, one a unit.
        workers: What runs them; the results do not depend on it.
        description: For the progress bar.
        ledger: A folder that keeps the results of finished units, or "" for none (Beam's workers
            need one). Its name must cover all that the results depend on, for example by holding
            the stage's work key.
    """
    done = recorded(ledger)
    todo = [index for index in range(len(units)) if index not in done]
    if workers.engine is Engine.BEAM:
        if todo:
            _beam().run(work, units, todo, ledger=ledger, workers=workers, description=description)
            done = recorded(ledger)
        return [done[index] for index in range(len(units))]
    bar = progress(total=len(units), initial=len(units) - len(todo), description=description)
    with bar:
        num_workers = workers.num_workers or default_num_workers()
        for index, result in _run(work, units, todo, num_workers):
            if ledger:
                record(ledger, index, result)
            done[index] = result
            bar.update(1)
    return [done[index] for index in range(len(units))]


def record(ledger: str, index: int, result: Any) -> None:
    """Writes a finished unit's result down."""
    storage.write_text(storage.join(ledger, f"{index:06d}{_RECORD}"), json.dumps(result))


def recorded(ledger: str) -> dict[int, Any]:
    """The results of the units that have finished, by their indices."""
    names = (
        [name for name in storage.list_files(ledger) if name.endswith(_RECORD)] if ledger else []
    )
    # In an object store each takes a while, and there may be thousands.
    with concurrent.futures.ThreadPoolExecutor(_READS_AT_ONCE) as pool:
        results = pool.map(lambda name: _read_record(storage.join(ledger, name)), names)
        return {
            int(name.removesuffix(_RECORD)): result[0]
            for name, result in zip(names, results, strict=True)
            if result
        }


def _read_record(location: str) -> tuple[Any] | None:
    """A unit's result, or None for a record that a broken disk left: the unit is done again."""
    try:
        return (json.loads(storage.read_text(location)),)
    except ValueError:
        logger.warning("%s: is damaged: its unit of work is done again", location)
        return None


def _run(
    work: Callable[[Unit], Any], units: Sequence[Unit], todo: list[int], num_workers: int
) -> Iterator[tuple[int, Any]]:
    if num_workers == 1 or len(todo) <= 1:
        for index in todo:
            yield index, work(units[index])
        return
    # A fork of this process would copy the locks of threads that Arrow and TensorFlow start.
    context = multiprocessing.get_context("forkserver")
    _ensure_forkserver()
    with concurrent.futures.ProcessPoolExecutor(
        min(num_workers, len(todo)), mp_context=context, initializer=_end_with_parent
    ) as pool:
        try:
            futures = _submit(pool, work, units, todo)
            for future in concurrent.futures.as_completed(futures):
                yield futures[future], future.result()
        except concurrent.futures.process.BrokenProcessPool:
            raise UserError(
                "worker process",
                "was killed from outside (often: out of memory)",
                fix="Run the same command again with fewer --num-workers: it goes on.",
            ) from None
        except (KeyboardInterrupt, GeneratorExit):
            for process in multiprocessing.active_children():
                process.kill()  # what it was at is done again
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _submit(
    pool: concurrent.futures.Executor,
    work: Callable[[Unit], Any],
    units: Sequence[Unit],
    todo: list[int],
) -> dict[concurrent.futures.Future[Any], int]:
    """The units as tasks of the pool, which starts its processes at the first one."""
    try:
        return {pool.submit(work, units[index]): index for index in todo}
    except (EOFError, ConnectionError) as error:  # what makes processes is itself one, and dead
        raise concurrent.futures.process.BrokenProcessPool from error


def _end_with_parent() -> None:
    """Sees to it that a worker does not outlive a run that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _beam() -> Any:
    """The module that needs apache_beam, imported only when it is asked for."""
    try:
        return importlib.import_module("clozeflow.beam_engine")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "apache_beam":
            raise
        raise UserError(
            "--engine beam",
            "needs apache-beam, which is not installed",
            fix="Install clozeflow[beam], or use the image made for Dataflow (docs/dataflow.md).",
        ) from None
