"""The loop of a run, as a person reads it."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Iterator
from typing import Any

from clozeflow.training.account import Item, TimeAccount
from clozeflow.training.checkpoint import Checkpoints
from clozeflow.training.checks import check_finite
from clozeflow.training.config import TrainConfig
from clozeflow.training.hub import HubPush
from clozeflow.training.journal import Journal
from clozeflow.training.pacing import Pacing
from clozeflow.training.profiling import Profiler
from clozeflow.training.progress import Progress
from clozeflow.training.signals import EXIT_RESUMABLE, sigterm_noticed
from clozeflow.training.step import TrainStep
from clozeflow.training.validation import Validator

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """What the loop works with."""

    config: TrainConfig
    step: TrainStep
    batches: Iterator[Any]
    """From the step that `progress` is at."""
    checkpoints: Checkpoints
    journal: Journal
    profiler: Profiler
    account: TimeAccount
    best: Checkpoints | None = None
    """The weights of the best validation, where they are kept."""
    validator: Validator | None = None
    hub: HubPush | None = None


def train(run: Run, progress: Progress) -> None:
    """Takes the run from where `progress` is to its last step.

    Raises:
        UserError: The loss is no number any more.
        SystemExit: With `EXIT_RESUMABLE`, after SIGTERM and a last checkpoint.
    """
    config, pacing = run.config, Pacing(run.config)
    with sigterm_noticed() as stop:
        while not progress.is_done(config):
            run.profiler.at(progress.step)
            _run_steps(run, progress, pacing)
            is_best = pacing.is_due(progress.step, config.validate_every_steps) and _validate(
                run, progress
            )
            is_over = stop.is_set() or progress.is_done(config)
            if pacing.is_due(progress.step, config.log_every_steps) or progress.is_done(config):
                run.journal.log(progress)
            # A checkpoint names the best weights so far: the two must not drift apart.
            if is_best or is_over or pacing.is_due(progress.step, config.checkpoint_every_steps):
                _save(run, progress)
            if stop.is_set():
                _leave(run, progress)
        run.profiler.stop()
        run.checkpoints.wait()
        if run.best:
            run.best.wait()


def _run_steps(run: Run, progress: Progress, pacing: Pacing) -> None:
    num_steps = pacing.next_call(progress.step)
    start, waited = time.monotonic(), run.step.data_wait_seconds
    metrics = run.step.run(run.batches, first_step=progress.step, num_steps=num_steps)
    seconds = time.monotonic() - start
    check_finite(metrics, progress.step)
    # The time of an attempt's first call is the compiler's.
    run.account.add(Item.STEP if waited else Item.COMPILE, seconds)
    run.account.add(Item.DATA_WAIT, run.step.data_wait_seconds - waited if waited else 0.0)
    pacing.learn(num_steps, seconds)
    progress.add(metrics, seconds=seconds)
    run.journal.advance(num_steps)


def _validate(run: Run, progress: Progress) -> bool:
    """Whether the model is the best so far; then its weights are kept."""
    assert run.validator, "validation is due without a validator"
    with run.account.during(Item.VALIDATION):
        progress.validations.append(run.validator.measure(progress.step))
    run.journal.log_validation(progress)
    is_best = progress.best is progress.validations[-1]
    if is_best and run.best:
        run.best.save(progress)
    return is_best and run.best is not None


def _save(run: Run, progress: Progress) -> None:
    with run.account.during(Item.CHECKPOINT):
        run.checkpoints.save(progress)
    if run.hub:
        run.hub.push(progress.step)


def _leave(run: Run, progress: Progress) -> None:
    run.checkpoints.wait()
    run.journal.close()
    what = f"stopped by SIGTERM at step {progress.step:,}, all saved: the same command goes on"
    logger.warning(what)
    raise SystemExit(EXIT_RESUMABLE)
