"""How many rows a second the reader gives, against what a TPU host consumes.

    python benchmarks/reader_speed.py SHARDS [--batch-size 512] [--seconds 10]

A v5e-8 host at 40 % of its peak, on roberta-base with rows of 128 tokens: 8 chips of 197 TFLOP/s
(bfloat16) at 40 % do 630 TFLOP/s; a row takes 74 GFLOP (the compiler's own count for the
step with the head at masked positions alone: 4.74 TFLOP for 64 rows); so 8,500 rows a second.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time

from places import check_artifact

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

from clozeflow import artifacts
from clozeflow.artifacts import Artifact, ArtifactType

PEAK_FLOPS, NUM_CHIPS, UTILISATION = 197e12, 8, 0.40
FLOPS_PER_ROW = 4.74e12 / 64


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards", help="a Shards artifact")
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    check_artifact(arguments.shards, "Shards")
    import clozeflow.shards.reader  # noqa: F401 - TensorFlow's import is not what is measured

    shards = artifacts.open_artifact(arguments.shards, ArtifactType.SHARDS, name="shards")
    consumed = PEAK_FLOPS * NUM_CHIPS * UTILISATION / FLOPS_PER_ROW
    print(f"a v5e-8 host consumes {consumed:,.0f} rows a second")
    for step in (0, 1_000_000):
        start, cpu = time.monotonic(), time.process_time()
        next(batches(shards, arguments.batch_size, step))
        print(
            f"first batch at step {step:,}: {time.monotonic() - start:.2f} s, "
            f"{time.process_time() - cpu:.2f} s of CPU time"
        )
    rate, rate_of_cpu = measure(shards, arguments.batch_size, arguments.seconds)
    print(f"read: {rate:,.0f} rows a second ({rate / consumed:.1f} times that)")
    per_cpu = rate_of_cpu / consumed
    print(f"      {rate_of_cpu:,.0f} rows for a second of CPU time ({per_cpu:.1f} times that)")


def batches(shards: Artifact, batch_size: int, step: int):  # noqa: ANN201
    """The reader's batches from this step on."""
    from clozeflow.shards import reader

    dataset = reader.train_batches(shards, global_batch_size=batch_size, seed=0, start_step=step)
    return iter(dataset)


def measure(shards: Artifact, batch_size: int, seconds: float) -> tuple[float, float]:
    """Rows a second of wall time, and of CPU time over all threads."""
    stream = batches(shards, batch_size, 0)
    next(stream)
    start, cpu = time.monotonic(), time.process_time()
    num_rows = 0
    while time.monotonic() - start < seconds:
        for _ in itertools.islice(stream, 20):
            num_rows += batch_size
    return num_rows / (time.monotonic() - start), num_rows / (time.process_time() - cpu)


if __name__ == "__main__":
    main()
