"""Runs independent units of work: in this process, or in a pool of them.

A unit's function takes one argument and returns a JSON-serialisable result. With a ledger, the
result of each finished unit is written down, and a run that was killed redoes only the others.
"""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from clozeflow import storage
from clozeflow.errors import UserError
from clozeflow.progress import progress

Unit = TypeVar("Unit")

LEDGER_FOLDER = ".units"


def default_num_workers() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_units(
    work: Callable[[Unit], Any],
    units: Sequence[Unit],
    *,
    num_workers: int,
    description: str,
    ledger: str = "",
) -> list[Any]:
    """The results of `work` on every unit, in the units' order.

    Args:
        work: A module-level function (it is sent to other processes by its name).
        units: Picklable arguments, one a unit.
        num_workers: Processes; 0 means one a processor, 1 means this process.
        description: For the progress bar.
        ledger: A folder that keeps the results of finished units, or "" for none. Its name must
            cover all that the results depend on, for example by holding the stage's work key.
    """
    results: list[Any] = [_recorded(ledger, index) for index in range(len(units))]
    todo = [index for index, result in enumerate(results) if result is None]
    bar = progress(total=len(units), initial=len(units) - len(todo), description=description)
    with bar:
        for index, result in _run(work, units, todo, num_workers or default_num_workers()):
            if ledger:
                storage.write_text(_record(ledger, index), json.dumps(result))
            results[index] = result
            bar.update(1)
    return results


def _run(
    work: Callable[[Unit], Any], units: Sequence[Unit], todo: list[int], num_workers: int
) -> Iterator[tuple[int, Any]]:
    if num_workers == 1 or len(todo) <= 1:
        for index in todo:
            yield index, work(units[index])
        return
    # "spawn": a fork would copy the locks of threads that Arrow and TensorFlow start.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(
        min(num_workers, len(todo)), mp_context=context
    ) as pool:
        futures = {pool.submit(work, units[index]): index for index in todo}
        try:
            for future in concurrent.futures.as_completed(futures):
                yield futures[future], future.result()
        except concurrent.futures.process.BrokenProcessPool:
            raise UserError(
                "worker process",
                "was killed from outside (often: out of memory)",
                fix="Run the same command again with fewer --num-workers: it goes on.",
            ) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _record(ledger: str, index: int) -> str:
    return storage.join(ledger, f"{index:06d}.json")


def _recorded(ledger: str, index: int) -> Any:
    location = _record(ledger, index)
    if not ledger or not storage.is_file(location):
        return None
    return json.loads(storage.read_text(location))
