"""The curve of preset mini on the sample: ours, the stock Keras way, and the unigram guess.

    python benchmarks/training_curve.py --work FOLDER [--steps 200] [--every 25]

Makes corpus, tokenizer and shards of the built-in sample below FOLDER (kept for the next run),
then trains twice from the same first weights with the same settings and budget: by
`clozeflow train`'s step, and by Keras `fit` with transformers' own model, loss and
`AdamWeightDecay`. Both are asked the same masked tokens of the validation split at the same
steps: loss (nats), masked accuracy, and bits per byte of the text that the masked tokens stand
for. Time is processor time of training alone. 200 steps take about 15 minutes on two free cores,
600 about 40.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.update(TF_USE_LEGACY_KERAS="1", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")

SEQ_LEN, BATCH_SIZE = 128, 32
PEAK_RATE, WEIGHT_DECAY = 1e-3, 0.01


def main() -> None:
    """Makes the data, trains both ways, prints the table and writes `curve.json`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=25)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        print(json.dumps(WAYS[arguments.way](arguments)))
        return
    _make_data(arguments.work)
    curves = {way: _in_own_process(way, arguments) for way in WAYS}
    (arguments.work / "curve.json").write_text(json.dumps(curves, indent=1) + "\n")
    print(f"{'way':8} {'step':>6} {'loss':>8} {'accuracy':>9} {'bits/byte':>10} {'CPU s':>8}")
    for way, rows in curves.items():
        for step, loss, accuracy, bits, seconds in rows:
            print(f"{way:8} {step:6} {loss:8.4f} {accuracy:9.2%} {bits:10.4f} {seconds:8.1f}")


def _make_data(work: Path) -> None:
    stages = (
        ["corpus", "--source", "sample", "--output", "corpus"],
        ["tokenizer", "--corpus", "corpus", "--output", "tokenizer"],
        ["shard", "--corpus", "corpus", "--tokenizer", "tokenizer", "--output", "shards"],
    )
    work.mkdir(parents=True, exist_ok=True)
    for stage in stages:
        command = [sys.executable, "-m", "clozeflow.cli", *stage]
        subprocess.run(command, check=True, cwd=work, stdout=subprocess.DEVNULL)


def _in_own_process(way: str, arguments: argparse.Namespace) -> list[list[float]]:
    command = [sys.executable, __file__, "--work", str(arguments.work), "--way", way]
    command += ["--steps", str(arguments.steps), "--every", str(arguments.every)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return list(json.loads(output.splitlines()[-1]))


class _Task:
    """What both ways share: data, first weights, settings, questions."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        import tensorflow as tf

        import clozeflow.training  # noqa: F401  (before TensorFlow's Keras is loaded)
        from clozeflow import artifacts
        from clozeflow.training import build, data
        from clozeflow.training.config import TrainConfig

        self.config = TrainConfig(
            preset="mini",
            num_train_steps=arguments.steps,
            warmup_steps=arguments.steps // 10,
            global_batch_size=BATCH_SIZE,
            peak_learning_rate=PEAK_RATE,
            weight_decay=WEIGHT_DECAY,
        )
        work = arguments.work
        self.every = arguments.every
        self.shards = artifacts.open_artifact(
            str(work / "shards"), "clozeflow.Shards", name="shards"
        )
        self.tokenizer = build.load_tokenizer(work / "tokenizer")
        self.strategy = tf.distribute.OneDeviceStrategy("CPU:0")
        self.step = build.make_step(self.config, self.shards, self.tokenizer, self.strategy)
        self.rule = build.make_rule(self.config, self.tokenizer, seq_len=SEQ_LEN)
        self.questions = list(
            data.validation_batches(self.strategy, self.shards, rule=self.rule, batch_size=64)
        )
        self.bytes_of = _bytes_of_ids(self.tokenizer)

    def batches(self) -> Any:
        """Masked batches from step 0 on: the same examples and masks for both."""
        from clozeflow.training import data

        return data.training_batches(
            self.strategy,
            self.shards,
            rule=self.rule,
            global_batch_size=BATCH_SIZE,
            seed=0,
            start_step=0,
        )

    def answers(self, model: Any) -> tuple[float, float, float]:
        """Loss, accuracy and bits per byte of the model on the questions."""
        from clozeflow.training.step import loss_sums

        sums = sum(loss_sums(model, batch, training=False).numpy() for batch in self.questions)
        return self.figures(float(sums[0]), float(sums[1]), float(sums[2]))

    def figures(
        self, loss_sum: float, num_correct: float, num_masked: float
    ) -> tuple[float, float, float]:
        """The same from sums over the questions."""
        bits_per_byte = loss_sum / math.log(2) / sum(self.bytes_of[i] for i in self.labels())
        return loss_sum / num_masked, num_correct / num_masked, bits_per_byte

    def labels(self) -> list[int]:
        """The ids that are asked for."""
        return [
            label
            for batch in self.questions
            for label in batch["masked_labels"][batch["masked_weights"] > 0].numpy().tolist()
        ]


def _bytes_of_ids(tokenizer: Any) -> list[int]:
    pieces = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    return [len(piece.replace("▁", " ").encode()) for piece in pieces]


def _unigram(arguments: argparse.Namespace) -> list[tuple[float, ...]]:
    """The guess by frequency alone, counted on the training data."""
    import numpy as np

    from clozeflow.shards import reader

    task = _Task(arguments)
    counts = np.ones(len(task.tokenizer))
    for batch in reader.eval_batches(task.shards, split="train", batch_size=4096):
        counts += np.bincount(batch["input_ids"].numpy().ravel(), minlength=len(counts))
    counts[list(task.rule.special_token_ids)] = 0
    with np.errstate(divide="ignore"):
        losses = -np.log(counts / counts.sum())
    labels = np.array(task.labels())
    is_right = (labels == counts.argmax()).sum()
    return [(0, *task.figures(losses[labels].sum(), is_right, len(labels)), 0.0)]


def _ours(arguments: argparse.Namespace) -> list[tuple[float, ...]]:
    task, seconds = _Task(arguments), 0.0
    batches, rows = task.batches(), []
    for first in _calls(task):
        start = _cpu_seconds()
        task.step.run(batches, first_step=first, num_steps=task.every)
        seconds += _cpu_seconds() - start
        rows.append((first + task.every, *task.answers(task.step.model), seconds))
    return rows


def _stock(arguments: argparse.Namespace) -> list[tuple[float, ...]]:
    """As Hugging Face's script for TensorFlow trains: labels of -100, `fit`."""
    import tensorflow as tf
    import tf_keras
    from transformers import TFAutoModelForMaskedLM, create_optimizer

    task, seconds = _Task(arguments), 0.0
    model = TFAutoModelForMaskedLM.from_config(task.step.model.config)
    model.build_in_name_scope()
    model.set_weights(task.step.model.get_weights())
    tf_keras.utils.set_random_seed(0)
    optimizer, _ = create_optimizer(
        PEAK_RATE,
        task.config.num_train_steps,
        task.config.warmup_steps,
        adam_beta2=0.98,
        adam_epsilon=1e-6,
        weight_decay_rate=WEIGHT_DECAY,
        adam_global_clipnorm=task.config.max_gradient_norm,
    )
    model.compile(optimizer=optimizer)
    iterator = task.batches()

    def inputs() -> Iterator[dict[str, Any]]:
        for batch in iterator:
            yield _with_stock_labels(batch)

    row = tf.TensorSpec([BATCH_SIZE, SEQ_LEN], tf.int32)
    signature = dict.fromkeys(("input_ids", "attention_mask", "labels"), row)
    dataset = iter(tf.data.Dataset.from_generator(inputs, output_signature=signature).prefetch(2))
    rows = []
    for first in _calls(task):
        start = _cpu_seconds()
        model.fit(dataset, epochs=1, steps_per_epoch=task.every, verbose=0)
        seconds += _cpu_seconds() - start
        rows.append((first + task.every, *task.answers(model), seconds))
    return rows


def _with_stock_labels(batch: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    labels = np.full((BATCH_SIZE, SEQ_LEN), -100, np.int32)
    rows, columns = np.nonzero(batch["masked_weights"].numpy())
    positions = batch["masked_positions"].numpy()[rows, columns]
    labels[rows, positions] = batch["masked_labels"].numpy()[rows, columns]
    return {
        "input_ids": batch["input_ids"],
        "attention_mask": batch["attention_mask"],
        "labels": labels,
    }


def _calls(task: _Task) -> range:
    return range(0, task.config.num_train_steps, task.every)


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


WAYS = {"unigram": _unigram, "stock": _stock, "ours": _ours}


if __name__ == "__main__":
    main()
