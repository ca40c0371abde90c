"""Being asked to stop: what a spot machine gets before it is taken away."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

EXIT_RESUMABLE = os.EX_TEMPFAIL
"""75: stopped from outside with all saved; the same command goes on."""


@contextlib.contextmanager
def sigterm_noticed() -> Iterator[threading.Event]:
    """An event that SIGTERM sets in the block (outside the main thread nothing sets it)."""
    noticed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield noticed
        return
    before = signal.signal(signal.SIGTERM, lambda *_: noticed.set())
    try:
        yield noticed
    finally:
        signal.signal(signal.SIGTERM, before)
