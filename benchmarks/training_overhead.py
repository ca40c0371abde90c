"""What logging, checkpoints every 100 steps and progress cost beside the steps themselves.

    python benchmarks/training_overhead.py --shards SHARDS --tokenizer TOKENIZER [--preset mini]

Runs the loop as training does, and divides its processor time: within calls of the step, and all
else (the journal, TensorBoard, the bar, copying tensors, and the thread that writes checkpoints,
which runs while steps do). Two whole runs could not be compared to a few per cent on a shared
machine; the parts of one can. Exits with 1 where all else is 3 % of the steps or more.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")

LIMIT = 0.03


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shards", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--preset", default="mini")
    parser.add_argument("--steps", type=int, default=200, help="a multiple of 100")
    arguments = parser.parse_args()
    steps, writing, total = measure(arguments)
    others = total - steps
    overhead = (others + writing) / (steps - writing)
    print(f"CPU seconds: steps {steps - writing:.2f}, loop {others:.2f}, writing {writing:.2f}")
    print(f"overhead {overhead:.2%} of {arguments.steps} steps (limit {LIMIT:.0%})")
    sys.exit(0 if overhead < LIMIT else 1)


def measure(arguments: argparse.Namespace) -> tuple[float, float, float]:
    """CPU seconds: while steps run, of the writing thread, and of the loop with all of it."""
    import clozeflow.training  # noqa: F401  (before TensorFlow's Keras is loaded)
    from clozeflow import artifacts
    from clozeflow.training import build, data, devices
    from clozeflow.training.account import TimeAccount
    from clozeflow.training.checkpoint import Checkpoints, variables_by_name
    from clozeflow.training.config import TrainConfig
    from clozeflow.training.journal import Journal
    from clozeflow.training.loop import Run, train
    from clozeflow.training.profiling import Profiler
    from clozeflow.training.progress import Progress

    config = TrainConfig(preset=arguments.preset, num_train_steps=arguments.steps, warmup_steps=10)
    shards = artifacts.open_artifact(arguments.shards, "clozeflow.Shards", name="shards")
    tokenizer = build.load_tokenizer(arguments.tokenizer)
    seq_len = shards.manifest.properties["seq_len"]
    strategy = devices.make_strategy(config.distribution)
    step = build.make_step(config, shards, tokenizer, strategy)
    batches = data.training_batches(
        strategy,
        shards,
        rule=build.make_rule(config, tokenizer, seq_len=seq_len),
        global_batch_size=config.global_batch_size,
        seed=0,
        start_step=0,
    )
    step.run(batches, first_step=0, num_steps=2)  # compiles
    progress = Progress()
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Checkpoints(
            f"{folder}/checkpoints", variables_by_name(step.model, step.optimizer)
        )
        in_steps = _timed(step, "run", time.process_time)
        in_writing = _timed(checkpoints, "_write", time.thread_time)
        run = Run(
            config=config,
            step=step,
            batches=batches,
            checkpoints=checkpoints,
            journal=Journal(
                Path(folder),
                progress,
                num_train_steps=config.num_train_steps,
                tokens_per_step=config.global_batch_size * seq_len,
            ),
            profiler=Profiler(range(0), folder),
            account=TimeAccount(progress.account),
        )
        start = time.process_time()
        train(run, progress)
        run.journal.close()
        total = time.process_time() - start
    # The last checkpoint is written after the last step: it would be counted twice.
    last = in_writing[-1]
    return sum(in_steps), sum(in_writing) - last, total


def _timed(owner: Any, name: str, clock: Callable[[], float]) -> list[float]:
    """A list to which every call of the method adds what the clock says that it took."""
    seconds: list[float] = []
    method = getattr(owner, name)

    def timed(*args: Any, **kw: Any) -> Any:
        start = clock()
        try:
            return method(*args, **kw)
        finally:
            seconds.append(clock() - start)

    setattr(owner, name, timed)
    return seconds


if __name__ == "__main__":
    main()
