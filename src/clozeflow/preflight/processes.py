"""A process that may crash, hang, or be ended once its log has said enough."""

from __future__ import annotations

import collections
import dataclasses
import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from typing import TextIO

_LAST_LINES = 3
_FIRST_LOG_LINES, _LAST_LOG_LINES = 5000, 50
"""Of a long log. What is said of memory is among the first, why it ended among the last."""
_LOGGING = {"TPU_STDERR_LOG_LEVEL": "0", "TPU_MIN_LOG_LEVEL": "0"}


class NoAnswer(Exception):
    """The process was killed, crashed, or took too long."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Done:
    """A process that has ended as it should."""

    output: str
    log: str
    """What it wrote to its standard error."""
    was_stopped: bool
    """Its log came to what it was to be stopped at."""


def run(
    command: Sequence[str],
    *,
    time_limit_seconds: float,
    stop_at: re.Pattern[str] | None = None,
) -> Done:
    """Runs a process in an environment of its own Python.

    Args:
        command: The program and its arguments.
        time_limit_seconds: It is killed then.
        stop_at: It is killed too when a line of its log holds this, and that is no failure.

    Raises:
        NoAnswer: It did not come to its end.
    """
    # Modules of ours are none of that Python's, nor those beside the script that it runs.
    environment = {**os.environ, **_LOGGING, "PYTHONSAFEPATH": "1", "PYTHONPATH": ""}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        try:
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=environment,
            )
        except OSError as error:
            raise NoAnswer(str(error)) from None
        return _ended(process, output, time_limit_seconds, stop_at)


def _ended(
    process: subprocess.Popen[str],
    output: TextIO,
    time_limit_seconds: float,
    stop_at: re.Pattern[str] | None,
) -> Done:
    is_late = threading.Event()

    def end_late() -> None:
        is_late.set()
        process.kill()

    timer = threading.Timer(time_limit_seconds, end_late)
    timer.start()
    try:
        with process:
            log, was_stopped = _follow(process, stop_at)
    finally:
        timer.cancel()
    if is_late.is_set():
        raise NoAnswer(f"not within {time_limit_seconds:,.0f} s")
    if process.returncode and not was_stopped:
        last = " / ".join(log.strip().splitlines()[-_LAST_LINES:])
        raise NoAnswer(f"exit code {process.returncode}: {last[-500:]}")
    output.seek(0)
    return Done(output=output.read(), log=log, was_stopped=was_stopped)


def _follow(process: subprocess.Popen[str], stop_at: re.Pattern[str] | None) -> tuple[str, bool]:
    """The log, to its end or to where the process is stopped."""
    assert process.stderr
    first: list[str] = []
    last: collections.deque[str] = collections.deque(maxlen=_LAST_LOG_LINES)
    try:
        for line in process.stderr:
            if stop_at and stop_at.search(line):
                process.kill()
                return "".join(first), True
            (first if len(first) < _FIRST_LOG_LINES else last).append(line)
        return "".join([*first, *last]), False
    except BaseException:
        process.kill()
        raise
