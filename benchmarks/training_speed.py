"""The training step against Keras `fit` on the stock model with its own loss.

    python benchmarks/training_speed.py [--case mini base] [--steps 6]

The stock way is what the Hugging Face script for TensorFlow does: `TFAutoModelForMaskedLM`,
labels of -100 where nothing is asked, transformers' `AdamWeightDecay`, `fit`. Both train on the
same random tokens in float32 with dropout, each in a process of its own; reading and masking are
part of ours. Tokens are counted per second of processor time, so that what else the machine does
matters little. Exits with 1 where ours is not as much faster as `Case.at_least` says.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import machine

os.environ.update(TF_USE_LEGACY_KERAS="1", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A model and a batch."""

    num_layers: int
    hidden_size: int
    num_heads: int
    vocab_size: int
    batch_size: int
    seq_len: int = 128
    at_least: float
    """How many times the stock way's tokens per second are promised."""


CASES = {
    "mini": Case(
        num_layers=4, hidden_size=256, num_heads=4, vocab_size=25_000, batch_size=32, at_least=2.0
    ),
    "base": Case(
        num_layers=12, hidden_size=768, num_heads=12, vocab_size=50_265, batch_size=8, at_least=1.3
    ),
}


def main() -> None:
    """Measures every case both ways and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        case = CASES[arguments.case[0]]
        print(json.dumps(WAYS[arguments.way](case, arguments.steps)))
        return
    print(machine.describe())
    print(
        f"{'case':6} {'way':6} {'CPU s/step':>11} {'s/step':>8} {'tokens/CPU s':>13} {'times':>6}"
    )
    results = [_compare(name, arguments.steps) for name in arguments.case]
    sys.exit(0 if all(results) else 1)


def _compare(name: str, num_steps: int) -> bool:
    case, cpu_seconds = CASES[name], {}
    for way in WAYS:
        command = [sys.executable, __file__, "--way", way, "--case", name]
        command += ["--steps", str(num_steps)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        cpu_seconds[way], wall_seconds = json.loads(output.splitlines()[-1])
        rate = case.batch_size * case.seq_len / cpu_seconds[way]
        times = cpu_seconds["stock"] / cpu_seconds[way]
        figures = f"{cpu_seconds[way]:11.3f} {wall_seconds:8.3f} {rate:13,.0f} {times:6.2f}"
        print(f"{name:6} {way:6} {figures}", flush=True)
    return cpu_seconds["stock"] / cpu_seconds["ours"] >= case.at_least


def _model_config(case: Case) -> Any:
    from transformers import RobertaConfig

    return RobertaConfig(
        vocab_size=case.vocab_size,
        num_hidden_layers=case.num_layers,
        hidden_size=case.hidden_size,
        num_attention_heads=case.num_heads,
        intermediate_size=4 * case.hidden_size,
        max_position_embeddings=case.seq_len + 2,
        type_vocab_size=1,
    )


def _rows(case: Case) -> Any:
    import numpy as np

    rows = np.random.default_rng(0).integers(5, case.vocab_size, (256, case.seq_len))
    rows[:, 0], rows[:, -1] = 0, 2
    return rows.astype(np.int32)


def _stock(case: Case, num_steps: int) -> tuple[float, float]:
    """Keras `fit`: CPU and wall seconds a step, after the first."""
    import numpy as np
    import tensorflow as tf
    from transformers import TFAutoModelForMaskedLM, create_optimizer

    rows = _rows(case)
    generator = np.random.default_rng(1)
    is_asked = (generator.random(rows.shape) < 0.15) & (rows > 4)
    inputs = {
        "input_ids": np.where(is_asked & (generator.random(rows.shape) < 0.8), 4, rows),
        "attention_mask": np.ones_like(rows),
        "labels": np.where(is_asked, rows, -100),
    }
    dataset = tf.data.Dataset.from_tensor_slices(inputs).repeat().batch(case.batch_size)
    model = TFAutoModelForMaskedLM.from_config(_model_config(case))
    optimizer, _ = create_optimizer(1e-4, 1000, 100, weight_decay_rate=0.01)
    model.compile(optimizer=optimizer)
    model.fit(dataset, epochs=1, steps_per_epoch=1, verbose=0)
    fit = lambda: model.fit(dataset, epochs=1, steps_per_epoch=num_steps, verbose=0)  # noqa: E731
    return _seconds_a_step(fit, num_steps)


def _ours(case: Case, num_steps: int) -> tuple[float, float]:
    """`TrainStep`, with masking: CPU and wall seconds a step, after the first."""
    import tensorflow as tf

    from clozeflow.training.masking import MaskingRule, mask_batch
    from clozeflow.training.model import build_model
    from clozeflow.training.optimizers import AdamW
    from clozeflow.training.step import TrainStep

    rule = MaskingRule(
        rate=0.15,
        seq_len=case.seq_len,
        vocab_size=case.vocab_size,
        mask_token_id=4,
        special_token_ids=(0, 1, 2, 3, 4),
    )
    rows = (
        tf.data.Dataset.from_tensor_slices(_rows(case))
        .repeat()
        .batch(case.batch_size, drop_remainder=True)
    )
    batches = rows.enumerate().map(
        lambda step, ids: mask_batch(
            ids,
            tf.ones_like(ids),
            seed=0,
            step=step,
            rule=rule,
            global_batch_size=case.batch_size,
        )
    )
    model = build_model(_model_config(case), seed=0)
    step = TrainStep(
        strategy=tf.distribute.get_strategy(),
        model=model,
        optimizer=AdamW(model.trainable_variables, weight_decay=0.01),
        schedule=lambda step: tf.constant(1e-4),
        max_gradient_norm=1.0,
        seed=0,
    )
    iterator = iter(batches.prefetch(2))
    step.run(iterator, first_step=0, num_steps=1)
    run = lambda: step.run(iterator, first_step=1, num_steps=num_steps)  # noqa: E731
    return _seconds_a_step(run, num_steps)


def _seconds_a_step(run: Callable[[], Any], num_steps: int) -> tuple[float, float]:
    cpu, wall = _cpu_seconds(), time.monotonic()
    run()
    return (_cpu_seconds() - cpu) / num_steps, (time.monotonic() - wall) / num_steps


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


WAYS: dict[str, Callable[[Case, int], tuple[float, float]]] = {"stock": _stock, "ours": _ours}


if __name__ == "__main__":
    main()
