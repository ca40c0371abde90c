"""What goes wrong in the processes of a fault test; Python imports this file as it starts.

It is on the path of those processes alone. `CLOZEFLOW_FAULTS` holds JSON:

    constants  {"module:NAME": value}: set when the module has been imported
    defect     the name of a function in `defects.py` beside this file
    haste      gcsfs waits so many times less between its attempts
    clock      seconds: the wall clock leaps by up to so much, to and fro, all the time
    kill_at    {"below": folder, "event": number}: SIGKILL before that file operation below it
"""

import importlib.abc
import importlib.util
import itertools
import json
import os
import random
import signal
import sys
import time

_FAULTS = json.loads(os.environ.get("CLOZEFLOW_FAULTS", "{}"))
_CHANGES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with a module when it has just been imported."""

    def __init__(self, changes):
        self.changes = changes
        self.busy = False

    def find_spec(self, name, path=None, target=None):
        if self.busy or name not in self.changes:
            return None
        self.busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy = False
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            for change in self.changes[name]:
                change(module)

        spec.loader.exec_module = exec_module
        return spec


class _Hasty:
    """`asyncio` with a shorter sleep."""

    def __init__(self, haste):
        self.haste = haste

    async def sleep(self, seconds):
        import asyncio

        await asyncio.sleep(seconds / self.haste)

    def __getattr__(self, name):
        import asyncio

        return getattr(asyncio, name)


def _planned_changes():
    changes = {}
    for place, value in _FAULTS.get("constants", {}).items():
        module, _, constant = place.partition(":")
        changes.setdefault(module, []).append(
            lambda found, constant=constant, value=value: setattr(found, constant, value)
        )
    if haste := _FAULTS.get("haste"):
        changes["gcsfs.retry"] = [lambda found: setattr(found, "asyncio", _Hasty(haste))]
    if defect := _FAULTS.get("defect"):
        import defects

        module, change = defects.DEFECTS[defect]
        changes.setdefault(module, []).append(change)
    return changes


def _make_clock_leap(seconds):
    real, monotonic = time.time, time.monotonic
    leaps = random.Random(os.getpid())
    state = {"until": 0.0, "leap": 0.0}

    def leaping():
        if monotonic() > state["until"]:
            state.update(until=monotonic() + 0.05, leap=leaps.uniform(-seconds, seconds))
        return real() + state["leap"]

    time.time = leaping
    time.time_ns = lambda: int(leaping() * 1e9)


def _kill_at(below, event):
    main_pid, counter = os.getpid(), itertools.count(1)

    def audit(name, arguments):
        if name not in _CHANGES or os.getpid() != main_pid:
            return
        if name == "open" and not (len(arguments) > 2 and int(arguments[2] or 0) & 3):
            return  # opened for reading
        path = arguments[0]
        is_below = isinstance(path, (str, os.PathLike)) and str(path).startswith(below)
        if is_below and next(counter) == event:
            os.kill(main_pid, signal.SIGKILL)

    sys.addaudithook(audit)


if _PLANNED := _planned_changes():
    sys.meta_path.insert(0, _AfterImport(_PLANNED))
if "clock" in _FAULTS:
    _make_clock_leap(_FAULTS["clock"])
# Of the command alone, not of its workers and of the processes that make them.
if "kill_at" in _FAULTS and "clozeflow.cli" in sys.orig_argv:
    _kill_at(**_FAULTS["kill_at"])
