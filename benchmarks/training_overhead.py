"""What logging, checkpoints every 100 steps and progress cost beside the steps themselves.

    python benchmarks/training_overhead.py --shards SHARDS --tokenizer TOKENIZER [--steps 200]

Trains preset mini through the whole stage, and reads from its own account what training waited
for; then runs the same steps bare. Everything is in processor time of this process, writing
threads included. Exits with 1 where the whole costs 3 % or more above the bare steps.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")

LIMIT = 0.03
_ROUNDS = 3
"""Both ways take turns: what else the machine does falls on both."""


def main() -> None:
    """Measures both ways and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shards", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--preset", default="mini")
    parser.add_argument("--steps", type=int, default=200, help="a multiple of 100")
    arguments = parser.parse_args()
    full, bare = [], []
    run = _prepare(arguments)
    for _ in range(_ROUNDS):
        bare.append(_cpu_seconds_of(run.bare))
        full.append(_cpu_seconds_of(run.full))
        print(f"bare {bare[-1]:.2f} s, all of it {full[-1]:.2f} s", flush=True)
    overhead = min(full) / min(bare) - 1
    print(f"overhead {overhead:.2%} of {arguments.steps} steps (limit {LIMIT:.0%})")
    sys.exit(0 if overhead < LIMIT else 1)


class _Ways:
    """The same steps, bare and in the loop."""

    def __init__(self, *, config: Any, step: Any, batches: Any, seq_len: int) -> None:
        self._config, self._step, self._batches = config, step, batches
        self._seq_len = seq_len

    def bare(self) -> None:
        """Nothing but calls of the step, as long as the loop's."""
        calls, rest = divmod(self._config.num_train_steps, self._config.steps_per_call)
        assert not rest
        for call in range(calls):
            first = call * self._config.steps_per_call
            self._step.run(self._batches, first_step=first, num_steps=self._config.steps_per_call)

    def full(self) -> None:
        """The loop, with its journal and its checkpoints."""
        from clozeflow.training.account import TimeAccount
        from clozeflow.training.checkpoint import Checkpoints, variables_by_name
        from clozeflow.training.journal import Journal
        from clozeflow.training.loop import Run, train
        from clozeflow.training.profiling import Profiler
        from clozeflow.training.progress import Progress

        progress = Progress()
        with tempfile.TemporaryDirectory() as folder:
            variables = variables_by_name(self._step.model, self._step.optimizer)
            run = Run(
                config=self._config,
                step=self._step,
                batches=self._batches,
                checkpoints=Checkpoints(f"{folder}/checkpoints", variables),
                journal=Journal(
                    Path(folder),
                    progress,
                    num_train_steps=self._config.num_train_steps,
                    tokens_per_step=self._config.global_batch_size * self._seq_len,
                ),
                profiler=Profiler(range(0), folder),
                account=TimeAccount(progress.account),
            )
            train(run, progress)
            run.journal.close()


def _prepare(arguments: argparse.Namespace) -> _Ways:
    import clozeflow.training  # noqa: F401  (before TensorFlow's Keras is loaded)
    from clozeflow import artifacts
    from clozeflow.training import build, data, devices
    from clozeflow.training.config import TrainConfig

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
    return _Ways(config=config, step=step, batches=batches, seq_len=seq_len)


def _cpu_seconds_of(run: Any) -> float:
    before = _cpu_seconds()
    run()
    return _cpu_seconds() - before


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
