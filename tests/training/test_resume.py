"""A run that was stopped and gone on with is, bit for bit, the run that was never stopped."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clozeflow.artifacts import Artifact
from clozeflow.shards.source import Source
from clozeflow.training import stage
from clozeflow.training.loop import EXIT_RESUMABLE
from clozeflow.training.step import TrainStep
from tests.training.program import CONFIG

CHECKPOINTS = Path(".work", "checkpoints")
TIMES = ("seconds", "tokens_per_second")


class Runner:
    """Starts the program, waits for a step, stops it."""

    def __init__(self, shards: Artifact, tokenizer: Artifact) -> None:
        self.arguments = [sys.executable, "-m", "tests.training.program", shards.uri, tokenizer.uri]

    def start(self, output: Path) -> subprocess.Popen:
        root = Path(__file__).parents[2]
        return subprocess.Popen([*self.arguments, str(output)], cwd=root, env=os.environ)

    def finish(self, output: Path) -> None:
        assert self.start(output).wait(300) == 0

    def stop(self, output: Path, *, after_step: int, how: signal.Signals) -> int:
        """Stops a run once its record has reached a step; returns the exit code."""
        process = self.start(output)
        while process.poll() is None and last_step(output) < after_step:
            time.sleep(0.1)
        process.send_signal(how)
        return process.wait(300)


def last_step(output: Path) -> int:
    path = output / "training.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    try:
        return json.loads(lines[-1])["step"] if lines else 0
    except ValueError:  # a line that is being written
        return 0


def record(output: Path) -> list[dict]:
    rows = [json.loads(line) for line in (output / "training.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if k not in TIMES} for row in rows]


def final_state(output: Path) -> bytes:
    """Weights and optimizer slots after the last step."""
    name = f"step-{CONFIG.num_train_steps:08d}.safetensors"
    return (output / CHECKPOINTS / name).read_bytes()


@pytest.fixture(scope="module")
def runner(shards: Artifact, tokenizer: Artifact) -> Runner:
    return Runner(shards, tokenizer)


@pytest.fixture(scope="module")
def uninterrupted(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("uninterrupted") / "model"
    runner.finish(output)
    return output


def check_equal(output: Path, uninterrupted: Path) -> None:
    assert final_state(output) == final_state(uninterrupted)
    assert record(output) == record(uninterrupted)
    model = "model.safetensors"
    assert (output / model).read_bytes() == (uninterrupted / model).read_bytes()


def test_killed_then_terminated_then_finished(
    runner: Runner, uninterrupted: Path, tmp_path: Path
) -> None:
    output = tmp_path / "model"
    assert runner.stop(output, after_step=21, how=signal.SIGKILL) == -signal.SIGKILL
    assert runner.stop(output, after_step=42, how=signal.SIGTERM) == EXIT_RESUMABLE
    runner.finish(output)
    check_equal(output, uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_stopped_at_five_random_steps(
    runner: Runner, uninterrupted: Path, tmp_path: Path, how: signal.Signals
) -> None:
    output = tmp_path / "model"
    steps = sorted(random.Random(int(how)).sample(range(1, 60), 5))
    for step in steps:
        runner.stop(output, after_step=step, how=how)
    runner.finish(output)
    check_equal(output, uninterrupted)


def test_a_resume_does_no_more_than_a_start_and_the_steps_that_are_left(
    shards: Artifact, tokenizer: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was done before the checkpoint is neither read nor traced nor computed again."""
    inputs = {"shards": shards, "tokenizer": tokenizer}
    steps: list[tuple[int, int]] = []
    rows_read: list[int] = []
    last_allowed = 40
    run_steps, read_rows = TrainStep.run, Source.gather

    def run(self: TrainStep, batches: Any, *, first_step: int, num_steps: int) -> Any:
        if first_step >= last_allowed:
            raise KeyboardInterrupt
        steps.append((first_step, num_steps))
        metrics = run_steps(self, batches, first_step=first_step, num_steps=num_steps)
        num_traces.append(self._run.experimental_get_tracing_count())
        return metrics

    def gather(self: Source, chosen: np.ndarray, rows: np.ndarray) -> Any:
        rows_read.append(len(rows))
        return read_rows(self, chosen, rows)

    num_traces: list[int] = []
    monkeypatch.setattr(TrainStep, "run", run)
    monkeypatch.setattr(Source, "gather", gather)
    with pytest.raises(KeyboardInterrupt):
        stage.run(CONFIG, inputs, str(tmp_path))
    traces_of_start, read_by_start = max(num_traces), sum(rows_read)
    for counted in (steps, rows_read, num_traces):
        counted.clear()
    last_allowed = CONFIG.num_train_steps
    stage.run(CONFIG, inputs, str(tmp_path))
    assert steps[0][0] == 36  # the last checkpoint before step 40
    assert sum(num_steps for _, num_steps in steps) == CONFIG.num_train_steps - 36
    assert max(num_traces) <= traces_of_start
    assert 0 < sum(rows_read) <= read_by_start
