"""The loop of a run, as a person reads it."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from clozeflow.errors import UserError
from clozeflow.training.checkpoint import Checkpoints
from clozeflow.training.config import TrainConfig
from clozeflow.training.journal import Journal
from clozeflow.training.progress import Progress
from clozeflow.training.step import StepMetrics, TrainStep

logger = logging.getLogger(__name__)

EXIT_RESUMABLE = os.EX_TEMPFAIL
"""75: stopped from outside with all saved; the same command goes on."""
_SECONDS_PER_CALL = 5.0
"""A call cannot be interrupted: it must end well within the 30 s that a spot machine is given."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """What the loop works with."""

    config: TrainConfig
    step: TrainStep
    batches: Iterator[Any]
    """From the step that `progress` is at."""
    checkpoints: Checkpoints
    journal: Journal
    tokens_per_step: int


def train(run: Run, progress: Progress) -> None:
    """Takes the run from where `progress` is to its last step.

    Raises:
        UserError: The loss is no number any more.
        SystemExit: With `EXIT_RESUMABLE`, after SIGTERM and a last checkpoint.
    """
    config = run.config
    with _sigterm_noticed() as stop:
        max_steps = 1  # the first call is for compiling, and shows what a step costs after it
        while progress.step < config.num_train_steps:
            num_steps = _next_call(progress.step, config, max_steps)
            start = time.monotonic()
            metrics = run.step.run(run.batches, first_step=progress.step, num_steps=num_steps)
            seconds = time.monotonic() - start
            _check_finite(metrics, progress.step)
            progress.add(metrics, seconds=seconds)
            run.journal.advance(num_steps)
            if _is_due(progress.step, config.log_every_steps, config):
                run.journal.write(progress.close_row(tokens_per_step=run.tokens_per_step))
            if stop.is_set() or _is_due(progress.step, config.checkpoint_every_steps, config):
                run.checkpoints.save(progress)
            if stop.is_set():
                _leave(run, progress)
            max_steps = max(1, min(2 * max_steps, int(_SECONDS_PER_CALL * num_steps / seconds)))
        run.checkpoints.wait()


def _next_call(step: int, config: TrainConfig, max_steps: int) -> int:
    """How many steps to run before the host looks: up to the next event of any kind."""
    every = (config.log_every_steps, config.checkpoint_every_steps)
    ends = [config.num_train_steps, *((step // n + 1) * n for n in every)]
    return min(config.steps_per_call, max_steps, min(ends) - step)


def _is_due(step: int, every: int, config: TrainConfig) -> bool:
    return step % every == 0 or step == config.num_train_steps


def _check_finite(metrics: Sequence[StepMetrics], first_step: int) -> None:
    for offset, one in enumerate(metrics):
        if not (math.isfinite(one.loss) and math.isfinite(one.gradient_norm)):
            raise UserError(
                f"step {first_step + offset + 1}",
                "has a loss or a gradient that is no finite number",
                got=f"loss {one.loss}, gradient norm {one.gradient_norm}",
                expected="finite numbers, as in the step before",
                fix="Give a lower --peak-learning-rate or a longer --warmup-steps.",
            )


def _leave(run: Run, progress: Progress) -> None:
    run.checkpoints.wait()
    run.journal.close()
    logger.warning(
        "stopped by SIGTERM at step %d, all saved: the same command goes on", progress.step
    )
    raise SystemExit(EXIT_RESUMABLE)


@contextlib.contextmanager
def _sigterm_noticed() -> Iterator[threading.Event]:
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
