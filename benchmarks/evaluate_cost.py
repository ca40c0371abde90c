"""What the evaluate stage costs, against the plain way, in CPU seconds with imports included.

    python benchmarks/evaluate_cost.py MODEL SHARDS [--work FOLDER]

The plain way is what the documentation of transformers shows for TensorFlow: the stock model by
`from_pretrained`, `DataCollatorForLanguageModeling`, `prepare_tf_dataset`, `compile` and
`evaluate`, which gives the mean loss and nothing else. The stage answers the same rows and gives
its table of figures with intervals, slices and a report. Each runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

import machine
from measure import measure
from places import check_artifact, check_model

PLAIN = """
import glob, json, os, sys
os.environ.update(TF_USE_LEGACY_KERAS="1", TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="-1")
import datasets
import tensorflow as tf
from transformers import AutoTokenizer, DataCollatorForLanguageModeling, TFAutoModelForMaskedLM

folder, pattern, seq_len, output = sys.argv[1:]
feature = tf.io.FixedLenFeature([int(seq_len)], tf.int64)
features = {"input_ids": feature, "attention_mask": feature}
rows = [
    {name: value.numpy().tolist() for name, value in tf.io.parse_single_example(r, features).items()}
    for r in tf.data.TFRecordDataset(sorted(glob.glob(pattern)))
]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = TFAutoModelForMaskedLM.from_pretrained(folder, use_safetensors=False)
batches = model.prepare_tf_dataset(
    datasets.Dataset.from_list(rows),
    collate_fn=DataCollatorForLanguageModeling(tokenizer, return_tensors="np"),
    batch_size=64,
    shuffle=False,
    drop_remainder=False,
)
model.compile()
json.dump({"rows": len(rows), "loss": float(model.evaluate(batches, verbose=0))}, open(output, "w"))
"""  # noqa: E501

STAGE = [sys.executable, "-c", "from clozeflow.cli import main; main()", "evaluate"]


def main() -> None:
    """Measures both and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="folder of a Model")
    parser.add_argument("shards", help="folder of its Shards, uncompressed")
    parser.add_argument("--work", type=Path)
    arguments = parser.parse_args()
    check_model(arguments.model)
    check_artifact(arguments.shards, "Shards")
    properties = json.loads(Path(arguments.shards, "manifest.json").read_text())["properties"]
    if arguments.work:
        arguments.work.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(dir=arguments.work)
    try:
        _compare(arguments.model, arguments.shards, str(properties["seq_len"]), folder)
    finally:
        shutil.rmtree(folder)


def _compare(model: str, shards: str, seq_len: str, work: str) -> None:
    print(machine.describe())
    print(f"{'':12}{'CPU s':>9}{'wall s':>9}{'peak MB':>9}{'loss':>9}")
    pattern, answer = f"{shards}/validation/*.tfrecord", f"{work}/plain.json"
    plain = measure([sys.executable, "-c", PLAIN, model, pattern, seq_len, answer])
    ours = measure([*STAGE, "--model", model, "--shards", shards, "--output", f"{work}/evaluation"])
    told = json.loads(Path(answer).read_text())
    manifest = json.loads(Path(work, "evaluation", "manifest.json").read_text())
    for name, cost, loss in (
        ("plain way", plain, told["loss"]),
        ("clozeflow", ours, manifest["metrics"]["loss"]),
    ):
        figures = f"{cost.cpu_seconds:9.1f}{cost.wall_seconds:9.1f}{cost.peak_mb:9.0f}"
        print(f"{name:12}{figures}{loss:9.3f}")
    times = plain.cpu_seconds / ours.cpu_seconds
    print(
        f"{told['rows']} rows; {times:.2f} times less CPU time, {len(manifest['metrics'])} figures"
    )


if __name__ == "__main__":
    main()
