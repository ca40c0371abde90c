"""What the corpus stage costs, against the plain way, in CPU seconds with imports included.

    python benchmarks/corpus_cost.py TEXT --work FOLDER

TEXT is a file of one document a line, plain or .xz. The plain way is what the documentation of
`datasets` shows: `load_dataset("text")`, `filter` of empty lines, a hash of each document and
`filter` of those seen before, `train_test_split` twice, `to_parquet`. The stage also normalises,
counts and measures, writes a report and fingerprints; first as the plain way's equal, with exact
duplicates alone, then as it is by default, looking for near duplicates too. Each runs in a
process of its own; the stage has one worker.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import sys
from pathlib import Path

import machine
from corpus_memory import MB, changed_repeats
from measure import Cost, measure
from places import check_text

PLAIN = """
import hashlib, sys
import datasets

text, output, cache = sys.argv[1:]
datasets.disable_progress_bars()
documents = datasets.load_dataset("text", data_files=text, split="train", cache_dir=cache)
documents = documents.filter(lambda document: document["text"].strip())
documents = documents.map(
    lambda document: {"hash": hashlib.md5(document["text"].encode()).hexdigest()}
)
new = set(documents.unique("hash"))

def is_new(document):
    if document["hash"] in new:
        new.remove(document["hash"])
        return True
    return False

documents = documents.filter(is_new).remove_columns("hash")
rest = documents.train_test_split(test_size=0.02, seed=0)
train = rest["train"].train_test_split(test_size=0.02, seed=0)
for name, split in (("train", train["train"]), ("validation", train["test"]), ("test", rest["test"])):
    split.to_parquet(f"{output}/{name}.parquet")
print(len(documents), file=sys.stderr)
"""  # noqa: E501

STAGE = [sys.executable, "-c", "from clozeflow.cli import main; main()", "corpus"]


def main() -> None:
    """Measures the plain way and the stage, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="a folder for all that is made")
    parser.add_argument("--megabytes", type=int, default=116, help="of the text, at most")
    arguments = parser.parse_args()
    check_text(arguments.text)
    work = arguments.work
    shutil.rmtree(work / "made", ignore_errors=True)
    (work / "made" / "plain").mkdir(parents=True)
    source = work / "made" / "text.txt"
    with source.open("wb") as file:
        pieces = changed_repeats(arguments.text, arguments.megabytes * MB, lambda data, _: data)
        file.writelines(itertools.chain(pieces))
    ours = [*STAGE, "--source", str(source), "--num-workers", "1", "--output"]
    made = str(work / "made")
    print(machine.describe())
    print(f"{'':34}{'CPU s':>9}{'wall s':>9}{'peak MB':>9}")
    plain = measure([sys.executable, "-c", PLAIN, str(source), f"{made}/plain", f"{made}/cache"])
    _print("plain way", plain, plain)
    exact = measure([*ours, f"{made}/exact", "--near-duplicates", "ignore"])
    _print("clozeflow, exact duplicates", exact, plain)
    default = measure([*ours, f"{made}/default"])
    _print("clozeflow, near duplicates too", default, plain)


def _print(name: str, cost: Cost, plain: Cost) -> None:
    figures = f"{cost.cpu_seconds:9.1f}{cost.wall_seconds:9.1f}{cost.peak_mb:9.0f}"
    times = plain.cpu_seconds / cost.cpu_seconds
    print(f"{name:34}{figures}   {times:.2f} times less CPU time", flush=True)


if __name__ == "__main__":
    main()
