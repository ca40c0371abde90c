"""What one looks at: `training.jsonl`, TensorBoard, the loss curve, the log."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from clozeflow import progress as bars
from clozeflow import report, storage

logger = logging.getLogger(__name__)

TRAINING_LOG = "training.jsonl"
LOGS_FOLDER = "logs"
PLOTS_FOLDER = "plots"

_SECONDS_BETWEEN_MESSAGES = 10
_CHARTED = ("loss", "masked_accuracy", "gradient_norm", "learning_rate", "tokens_per_second")


class Journal:
    """The record of a run, written as it goes.

    Args:
        folder: The model's folder on this machine.
        rows: The lines of an earlier attempt: what stands in the folder is made anew from them,
            so that steps that were lost with it are not in the record twice.
        num_train_steps: For the progress bar.
    """

    def __init__(
        self, folder: Path, *, rows: Sequence[dict[str, Any]], step: int, num_train_steps: int
    ) -> None:
        self._num_train_steps = num_train_steps
        self._path = folder / TRAINING_LOG
        storage.write_text(str(self._path), "".join(map(_line, rows)))
        self._summaries = tf.summary.create_file_writer(_fresh_logs_folder(folder))
        for row in rows:
            self._chart(row)
        self._bar = bars.progress(total=num_train_steps, initial=step, description="train")
        self._last_message = time.monotonic()

    def advance(self, num_steps: int) -> None:
        """Moves the bar."""
        self._bar.update(num_steps)

    def write(self, row: dict[str, Any]) -> None:
        """Adds a line."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_line(row))
        self._chart(row)
        self._bar.set_postfix(loss=f"{row['loss']:.3f}", accuracy=f"{row['masked_accuracy']:.1%}")
        is_last = row["step"] == self._num_train_steps
        if is_last or time.monotonic() - self._last_message > _SECONDS_BETWEEN_MESSAGES:
            logger.info(self._message(row))
            self._last_message = time.monotonic()

    def close(self) -> None:
        """Writes out what is held back."""
        self._summaries.close()
        self._bar.close()

    def _chart(self, row: dict[str, Any]) -> None:
        with self._summaries.as_default(step=row["step"]):
            for name in _CHARTED:
                tf.summary.scalar(f"train/{name}", row[name])
        self._summaries.flush()

    def _message(self, row: dict[str, Any]) -> str:
        left = row["seconds"] / row["step"] * (self._num_train_steps - row["step"])
        return (
            f"step {row['step']:,} of {self._num_train_steps:,}: loss {row['loss']:.3f}, "
            f"masked accuracy {row['masked_accuracy']:.1%}, "
            f"{row['tokens_per_second']:,} tokens/s, {left:,.0f} s left"
        )


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row) + "\n"


def _fresh_logs_folder(folder: Path) -> str:
    """TensorBoard's folder: the one that Vertex AI names, or an empty one of the model's."""
    if vertex := os.environ.get("AIP_TENSORBOARD_LOG_DIR"):
        return vertex
    logs = folder / LOGS_FOLDER
    shutil.rmtree(logs, ignore_errors=True)
    return str(logs)


def draw_curves(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    """The loss and the masked accuracy over the steps, as a picture."""
    steps = [row["step"] for row in rows]
    figure = report.new_figure(height=5)
    loss, accuracy = figure.subplots(2, 1, sharex=True)
    loss.plot(steps, [row["loss"] for row in rows])
    loss.set_ylabel("loss (nats)")
    accuracy.plot(steps, [row["masked_accuracy"] for row in rows])
    accuracy.set_ylabel("masked accuracy")
    accuracy.set_xlabel("step")
    for axes in (loss, accuracy):
        axes.grid(alpha=0.3)
    (folder / PLOTS_FOLDER).mkdir(exist_ok=True)
    figure.savefig(folder / PLOTS_FOLDER / "loss.png", dpi=120)
