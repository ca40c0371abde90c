"""Where a run's time went, over all its attempts."""

from __future__ import annotations

import contextlib
import enum
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from clozeflow import storage

TIME_ACCOUNT = "time_account.json"


class Item(enum.StrEnum):
    """What time goes into."""

    STARTUP = "startup"
    """Of each attempt: devices, model, checkpoint; not TensorFlow's import, some seconds."""
    COMPILE = "compile"
    """The first call of the step in each attempt, and whatever else is traced in it."""
    STEP = "step"
    """Steps whose result is part of the model."""
    DATA_WAIT = "data_wait"
    """Within steps: until their batch was there."""
    CHECKPOINT = "checkpoint"
    """What training waited for: copies of the tensors, and writes that were not done in time."""
    VALIDATION = "validation"
    EXPORT = "export"
    """The files of the model, and the pictures."""
    LOST_WORK = "lost_work"
    """Steps after the last checkpoint of an attempt that was killed, as far as its log tells."""


class TimeAccount:
    """Adds seconds to a mapping that checkpoints hold; `DATA_WAIT` is a part of `STEP`."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds

    def add(self, item: Item, seconds: float) -> None:
        """Books so many seconds."""
        self._seconds[item.value] = self._seconds.get(item.value, 0.0) + seconds

    @contextlib.contextmanager
    def during(self, item: Item) -> Iterator[None]:
        """Books the time that the block takes."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.add(item, time.monotonic() - start)

    def summary(self) -> dict[str, float]:
        """Seconds by item, their total, and goodput: the share of it that trained the model."""
        seconds = {item.value: self._seconds.get(item.value, 0.0) for item in Item}
        total = sum(seconds.values()) - seconds[Item.DATA_WAIT]
        useful = seconds[Item.STEP] - seconds[Item.DATA_WAIT]
        return {**seconds, "total": total, "goodput": useful / total if total else 0.0}


def write_account(folder: Path, summary: Mapping[str, float]) -> None:
    """Writes `time_account.json`: seconds, and goodput as a share."""
    rounded = {name: round(value, 4) for name, value in summary.items()}
    storage.write_text(str(folder / TIME_ACCOUNT), json.dumps(rounded, indent=1) + "\n")


def message(summary: Mapping[str, float]) -> str:
    """The account in a line."""
    parts = [
        f"{name.replace('_', ' ')} {seconds:,.1f} s"
        for name, seconds in summary.items()
        if name != "goodput" and seconds >= 0.05
    ]
    return f"time: {', '.join(parts)}; goodput {summary['goodput']:.0%}"
