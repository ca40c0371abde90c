"""What one looks at: `training.jsonl`, TensorBoard, the loss curve, the log."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from clozeflow import progress as bars
from clozeflow import report, storage
from clozeflow.training.config import TrainConfig
from clozeflow.training.progress import Progress, Validation
from clozeflow.training.schedules import make_schedule

logger = logging.getLogger(__name__)

TRAINING_LOG = "training.jsonl"
VALIDATION_LOG = "validation.jsonl"
LOGS_FOLDER = "logs"
PLOTS_FOLDER = "plots"

_SECONDS_BETWEEN_MESSAGES = 10
_CHARTED = ("loss", "masked_accuracy", "gradient_norm", "learning_rate", "tokens_per_second")


class Journal:
    """The record of a run, written as it goes.

    What an earlier attempt left in the folder is made anew from its progress, so that steps that
    were lost with it are not in the record twice.

    Args:
        folder: The model's folder on this machine.
        progress: Where the run is.
        num_train_steps: For the progress bar.
        tokens_per_step: Padding included.
        share_of_peak: Of the devices' peak, if known, that one step a second would be.
    """

    def __init__(
        self,
        folder: Path,
        progress: Progress,
        *,
        num_train_steps: int,
        tokens_per_step: int,
        share_of_peak: float = 0.0,
    ) -> None:
        self._num_train_steps = num_train_steps
        self._tokens_per_step, self._share_of_peak = tokens_per_step, share_of_peak
        self._path, self._validation_path = folder / TRAINING_LOG, folder / VALIDATION_LOG
        storage.write_text(str(self._path), "".join(map(_line, progress.rows)))
        self._validation_path.unlink(missing_ok=True)
        self.logs_folder = _fresh_logs_folder(folder)
        self._summaries = tf.summary.create_file_writer(self.logs_folder)
        for row in progress.rows:
            self._chart(row)
        for validation in progress.validations:
            self._record_validation(validation)
        self._bar = bars.progress(total=num_train_steps, initial=progress.step, description="train")
        self._last_message = time.monotonic()

    def advance(self, num_steps: int) -> None:
        """Moves the bar."""
        self._bar.update(num_steps)

    def log(self, progress: Progress) -> None:
        """Adds a line over the steps since the last one."""
        row = progress.close_row(
            tokens_per_step=self._tokens_per_step, share_of_peak=self._share_of_peak
        )
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_line(row))
        self._chart(row)
        self._bar.set_postfix(loss=f"{row['loss']:.3f}", accuracy=f"{row['masked_accuracy']:.1%}")
        is_last = row["step"] == self._num_train_steps
        if is_last or time.monotonic() - self._last_message > _SECONDS_BETWEEN_MESSAGES:
            logger.info(self._message(row))
            self._last_message = time.monotonic()

    def log_validation(self, progress: Progress) -> None:
        """Adds the newest validation."""
        newest, best = progress.validations[-1], progress.best
        self._record_validation(newest)
        logger.info(
            "step %s: validation loss %.4f, masked accuracy %.1f %%%s",
            *(f"{newest.step:,}", newest.loss, 100 * newest.masked_accuracy),
            " (the best so far)" if newest is best else "",
        )

    def close(self) -> None:
        """Writes out what is held back."""
        self._summaries.close()
        self._bar.close()

    def _record_validation(self, validation: Validation) -> None:
        row = validation._asdict()
        with self._validation_path.open("a", encoding="utf-8") as file:
            file.write(_line(row))
        with self._summaries.as_default(step=validation.step):
            for name in ("loss", "masked_accuracy"):
                tf.summary.scalar(f"validation/{name}", row[name])

    def _chart(self, row: dict[str, Any]) -> None:
        with self._summaries.as_default(step=row["step"]):
            for name in (*_CHARTED, *(["mfu"] if "mfu" in row else [])):
                tf.summary.scalar(f"train/{name}", row[name])
        self._summaries.flush()

    def _message(self, row: dict[str, Any]) -> str:
        left = row["seconds"] / row["step"] * (self._num_train_steps - row["step"])
        return (
            f"step {row['step']:,} of {self._num_train_steps:,}: loss {row['loss']:.3f}, "
            f"masked accuracy {row['masked_accuracy']:.1%}, "
            f"{row['tokens_per_second']:,} tokens/s, "
            + (f"MFU {row['mfu']:.1%}, " if "mfu" in row else "")
            + f"{left:,.0f} s left"
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


def last_seconds(folder: Path) -> float:
    """Of training, as far as the record in the folder goes: 0 where there is none."""
    path = folder / TRAINING_LOG
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    for line in reversed(lines):
        try:
            return float(json.loads(line)["seconds"])
        except (ValueError, LookupError, TypeError):
            continue  # cut off when the run was killed
    return 0.0


def draw_curves(folder: Path, progress: Progress) -> None:
    """The loss and the masked accuracy over the steps, as a picture."""
    figure = report.new_figure(height=5)
    axes = dict(zip(("loss", "masked_accuracy"), figure.subplots(2, 1, sharex=True), strict=True))
    for name, label in (("loss", "loss (nats)"), ("masked_accuracy", "masked accuracy")):
        axes[name].plot([r["step"] for r in progress.rows], [r[name] for r in progress.rows])
        if validations := progress.validations:
            axes[name].plot(
                [one.step for one in validations],
                [getattr(one, name) for one in validations],
                label="validation",
            )
            axes[name].legend()
        axes[name].set_ylabel(label)
        axes[name].grid(alpha=0.3)
    axes["masked_accuracy"].set_xlabel("step")
    _save_figure(figure, folder, "loss.png")


def draw_schedule(folder: Path, config: TrainConfig) -> None:
    """The learning rate over the steps, as a picture."""
    steps = np.linspace(0, config.num_train_steps - 1, min(config.num_train_steps, 500))
    rates = make_schedule(config, config.num_train_steps)(tf.constant(steps, tf.float32))
    figure = report.new_figure()
    axes = figure.subplots()
    axes.plot(steps + 1, rates.numpy())
    axes.set_xlabel("step")
    axes.set_ylabel("learning rate")
    axes.grid(alpha=0.3)
    _save_figure(figure, folder, "schedule.png")


def _save_figure(figure: Any, folder: Path, name: str) -> None:
    (folder / PLOTS_FOLDER).mkdir(exist_ok=True)
    figure.savefig(folder / PLOTS_FOLDER / name, dpi=120)
