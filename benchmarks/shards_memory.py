"""Peak memory and CPU time of the shard stage as the corpus grows: flat, and linear.

    python benchmarks/shards_memory.py TEXT [--sizes 10 100 1000] [--work FOLDER] [stage flags …]

TEXT is a file of one document a line, plain or .xz. It is repeated to each size (in MB), each time
with another number before each line, so that no repeat is a duplicate of another and a byte has as
many tokens everywhere. (--exchange-letters is harder: words that the tokenizer does not know, with
three times the tokens.) The tokenizer is that of the first size. The stage has one worker, which is
the process that is measured; then it runs again with two, for the last column: how many times
faster that was. Exits with 1 if the largest corpus took 1 GB, or over 20 % more memory, or more
time a byte, than the one before.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from corpus_memory import MB, TOLERANCE, changed_repeats, exchange_letters
from measure import Cost, measure

_STAGES = [sys.executable, "-c", "from clozeflow.cli import main; main()"]
_MOST_MB = 1000


def main() -> None:
    """Measures every size and prints a table."""
    arguments, flags = _parser().parse_known_args()
    costs = []
    if arguments.work:
        arguments.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        work = Path(folder)
        print(f"{'MB':>6} {'CPU s':>8} {'CPU s/MB':>9} {'peak MB':>8} {'2 workers':>9}")
        for size in arguments.sizes:
            cost, cost_of_two = _measure(arguments, size, work, flags)
            costs.append((size, cost))
            rate, times = cost.cpu_seconds / size, cost.wall_seconds / cost_of_two.wall_seconds
            print(
                f"{size:6} {cost.cpu_seconds:8.1f} {rate:9.3f} {cost.peak_mb:8.0f} {times:8.2f}x",
                flush=True,
            )
    sys.exit(0 if _is_flat(costs) else 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--vocab-size", type=int, default=25_000)
    parser.add_argument("--exchange-letters", action="store_true")
    parser.add_argument("--work", type=Path)
    return parser


def _measure(arguments: argparse.Namespace, size: int, work: Path, flags: list[str]) -> list[Cost]:
    """What the stage takes on so much text, with one worker and with two."""
    corpus, tokenizer, shards = (str(work / name) for name in ("corpus", "tokenizer", "shards"))
    with (work / "text.txt").open("wb") as file:
        change = exchange_letters if arguments.exchange_letters else _number_lines
        for data in changed_repeats(arguments.text, size * MB, change):
            file.write(data)
    source = ["--source", str(work / "text.txt"), "--near-duplicates", "ignore"]
    measure([*_STAGES, "corpus", *source, "--output", corpus, "--test-fraction", "0"])
    if not Path(tokenizer, "manifest.json").exists():
        vocabulary = ["--vocab-size", str(arguments.vocab_size)]
        measure([*_STAGES, "tokenizer", "--corpus", corpus, "--output", tokenizer, *vocabulary])
    inputs = ["--corpus", corpus, "--tokenizer", tokenizer, "--output", shards]
    costs = []
    for num_workers in ("1", "2"):
        costs.append(measure([*_STAGES, "shard", *inputs, "--num-workers", num_workers, *flags]))
        shutil.rmtree(shards)
    shutil.rmtree(corpus)
    return costs


def _number_lines(data: bytes, repeat: int) -> bytes:
    number = str(repeat).encode()
    return b"".join(b"%s %s" % (number, line) for line in data.splitlines(keepends=True))


def _is_flat(costs: list[tuple[int, Cost]]) -> bool:
    """Whether the last size cost no more, in memory and a byte, than the one before."""
    if costs[-1][1].peak_mb >= _MOST_MB:
        return False
    if len(costs) < 2:
        return True
    (size_before, before), (size, last) = costs[-2:]
    rate_before, rate = before.cpu_seconds / size_before, last.cpu_seconds / size
    return rate <= TOLERANCE * rate_before and last.peak_mb <= TOLERANCE * before.peak_mb


if __name__ == "__main__":
    main()
