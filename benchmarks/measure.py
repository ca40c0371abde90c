"""What a command costs, with every process that it starts."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Sequence

_PR_SET_CHILD_SUBREAPER = 36


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one run."""

    cpu_seconds: float
    """Of all processes."""
    wall_seconds: float
    peak_mb: float
    """Of the largest process."""


def measure(command: Sequence[str]) -> Cost:
    """Runs a command to its end; a failure ends this program too."""
    # What workers come from is no child of the command's when that has ended, but then of ours.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    if status:
        sys.exit(f"failed: {' '.join(command)[:300]}")
    cpu, peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss
    while True:
        try:
            _, _, usage = os.wait4(-1, 0)
        except ChildProcessError:
            return Cost(cpu_seconds=cpu, wall_seconds=wall, peak_mb=peak * 1024 / 1e6)
        cpu, peak = cpu + usage.ru_utime + usage.ru_stime, max(peak, usage.ru_maxrss)
