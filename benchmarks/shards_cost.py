"""What the shard stage costs, against the plain way, in CPU seconds with imports included.

    python benchmarks/shards_cost.py corpus.txt --work FOLDER [--vocab-size 25000] [--seq-len 128]
    python benchmarks/shards_cost.py corpus.txt --work FOLDER --only workers1,workers2 --runs 3

The plain way is what the documentation of transformers and TensorFlow shows: `datasets.map` with
the tokenizer, `map` again to group into blocks, `tf.train.Example` one by one. Both read the
same Corpus and the same Tokenizer, made first in FOLDER. Each runs in a process of its own.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import machine
from measure import Cost, measure
from places import check_text

PLAIN = """
import itertools, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import datasets
import tensorflow as tf
from transformers import AutoTokenizer

corpus, folder, output, seq_len, cache = sys.argv[1:]
seq_len = int(seq_len)
datasets.disable_progress_bars()
tokenizer = AutoTokenizer.from_pretrained(folder)
documents = datasets.load_dataset(
    "parquet", data_files={"train": corpus + "/train/*.parquet"}, split="train", cache_dir=cache
)
tokens = documents.map(
    lambda batch: tokenizer(batch["text"]), batched=True, remove_columns=documents.column_names
)

def group(batch):
    joined = {name: list(itertools.chain(*batch[name])) for name in batch}
    total = len(joined["input_ids"]) // seq_len * seq_len
    return {
        name: [ids[i : i + seq_len] for i in range(0, total, seq_len)]
        for name, ids in joined.items()
    }

rows = tokens.map(group, batched=True)

def feature(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

os.makedirs(output)
for shard, start in enumerate(range(0, len(rows), 8192)):
    block = rows.select(range(start, min(start + 8192, len(rows))))
    with tf.io.TFRecordWriter(f"{output}/dataset-{shard}-{len(block)}.tfrecord") as writer:
        for row in block:
            features = {
                "input_ids": feature(row["input_ids"]),
                "attention_mask": feature(row["attention_mask"]),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
print(len(rows))
"""

STAGES = "from clozeflow.cli import main; main()"

PROFILED = """
import sys, time
from clozeflow.shards import encoding
spent = 0.0
encode = encoding.Encoder.encode
def timed(self, texts):
    global spent
    start = time.process_time()
    try:
        return encode(self, texts)
    finally:
        spent += time.process_time() - start
encoding.Encoder.encode = timed
from clozeflow.cli import main
main()
print("encoder", spent, "all", time.process_time())
"""


def main() -> None:
    """Runs what is asked for and prints a table."""
    arguments = _arguments()
    check_text(arguments.text)
    corpus, tokenizer = _prepare(arguments)
    ours = _shard_command(arguments, corpus, tokenizer)
    costs: dict[str, Cost] = {}
    print(machine.describe())
    print(f"{'':24}{'CPU s':>9}{'wall s':>9}{'peak MB':>9}")
    if "plain" in arguments.only:
        output, cache = _fresh(arguments, "plain"), _fresh(arguments, "plain-cache")
        plain = [sys.executable, "-c", PLAIN, corpus, tokenizer, output]
        _add(costs, "plain way", measure([*plain, str(arguments.seq_len), cache]))
    for workers in (1, 2):
        if f"workers{workers}" in arguments.only:
            name = f"clozeflow, {workers} worker(s)"
            _add(costs, name, _best_of(arguments, workers, [sys.executable, "-c", STAGES, *ours]))
    _compare(costs)
    if "share" in arguments.only:
        output = _fresh(arguments, "share")
        command = [sys.executable, "-c", PROFILED, *ours, output, "--num-workers", "1"]
        last = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        _, encoder, _, whole = last.splitlines()[-1].split()
        print(f"the encoder's share of the stage's CPU time: {float(encoder) / float(whole):.0%}")


def _add(costs: dict[str, Cost], name: str, cost: Cost) -> None:
    costs[name] = cost
    print(
        f"{name:24}{cost.cpu_seconds:9.1f}{cost.wall_seconds:9.1f}{cost.peak_mb:9.0f}", flush=True
    )


def _best_of(arguments: argparse.Namespace, workers: int, command: Sequence[str]) -> Cost:
    """The run that took the least wall time, of as many as asked for."""
    found = []
    for _ in range(arguments.runs):
        output = _fresh(arguments, f"workers{workers}")
        found.append(measure([*command, output, "--num-workers", str(workers)]))
    return min(found, key=lambda cost: cost.wall_seconds)


def _compare(costs: dict[str, Cost]) -> None:
    plain, one, two = (
        costs.get(name)
        for name in ("plain way", "clozeflow, 1 worker(s)", "clozeflow, 2 worker(s)")
    )
    if plain and one:
        print(f"less CPU time than the plain way: {plain.cpu_seconds / one.cpu_seconds:.1f} times")
    if one and two:
        print(f"faster with 2 workers than with 1: {one.wall_seconds / two.wall_seconds:.2f} times")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", help="a text file, one document a line")
    parser.add_argument("--work", type=Path, required=True, help="a folder for all that is made")
    parser.add_argument("--vocab-size", type=int, default=25_000)
    parser.add_argument("--seq-len", type=int, default=128)
    parser.add_argument("--runs", type=int, default=1, help="of each number of workers; the best")
    parser.add_argument("--only", default="plain,workers1,workers2,share")
    return parser.parse_args()


def _prepare(arguments: argparse.Namespace) -> tuple[str, str]:
    """The Corpus and the Tokenizer, made where they are missing."""
    corpus, tokenizer = str(arguments.work / "corpus"), str(arguments.work / "tokenizer")
    call = [sys.executable, "-c", STAGES]
    fractions = ["--validation-fraction", "0.005", "--test-fraction", "0"]
    if not Path(corpus, "manifest.json").exists():
        source = ["--source", arguments.text, "--output", corpus]
        subprocess.run([*call, "corpus", *source, *fractions], check=True)
    if not Path(tokenizer, "manifest.json").exists():
        options = ["--output", tokenizer, "--vocab-size", str(arguments.vocab_size)]
        subprocess.run([*call, "tokenizer", "--corpus", corpus, *options], check=True)
    return corpus, tokenizer


def _shard_command(arguments: argparse.Namespace, corpus: str, tokenizer: str) -> Sequence[str]:
    inputs = ["--corpus", corpus, "--tokenizer", tokenizer]
    return ["shard", *inputs, "--seq-len", str(arguments.seq_len), "--output"]


def _fresh(arguments: argparse.Namespace, name: str) -> str:
    folder = arguments.work / name
    shutil.rmtree(folder, ignore_errors=True)
    return str(folder)


if __name__ == "__main__":
    main()
