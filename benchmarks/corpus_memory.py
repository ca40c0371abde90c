"""Peak memory and CPU time of the corpus stage as the corpus grows: flat, and linear.

    python benchmarks/corpus_memory.py TEXT [--sizes 10 100 1000] [--work FOLDER] [stage flags …]

TEXT is a file of one document a line, plain or compressed. It is repeated to each size (in MB),
each time with its letters exchanged for others, so that no repeat is a duplicate of another.
The stage runs in a process of its own, with one worker. Exits with 1 if the largest corpus took
over 20 % more memory, or over 20 % more time a byte, than the one before it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import lzma
import os
import random
import string
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

MB = 1_000_000
TOLERANCE = 1.2


def main() -> None:
    """Measures every size and prints a table."""
    arguments, flags = _parser().parse_known_args()
    if arguments.work:
        arguments.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.work) as work:
        print(f"{'MB':>6} {'CPU s':>8} {'CPU s/MB':>9} {'peak MB':>8}")
        rows = [_measure(arguments.text, size, Path(work), flags) for size in arguments.sizes]
    sys.exit(0 if _is_flat(rows) else 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--work", type=Path)
    return parser


def _measure(text: Path, size_mb: int, work: Path, flags: list[str]) -> tuple[float, float]:
    """CPU seconds per MB, and peak megabytes, of the stage on so much text."""
    source, output = work / f"{size_mb}.txt", work / f"corpus-{size_mb}"
    with source.open("wb") as file:
        for data in changed_repeats(text, size_mb * MB):
            file.write(data)
    command = [sys.executable, "-m", "clozeflow.cli", "corpus", "--source", str(source)]
    command += ["--output", str(output), "--num-workers", "1", *flags]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"the stage failed on {size_mb} MB")
    seconds, peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / MB
    print(f"{size_mb:6} {seconds:8.1f} {seconds / size_mb:9.3f} {peak:8.0f}", flush=True)
    source.unlink()
    return seconds / size_mb, peak


def exchange_letters(data: bytes, repeat: int) -> bytes:
    """The letters exchanged by a permutation of the repeat's own."""
    return data.translate(_exchange(repeat))


def changed_repeats(
    text: Path, num_bytes: int, change: Callable[[bytes, int], bytes] = exchange_letters
) -> Iterator[bytes]:
    """Lines of the text, again and again, changed in another way each time."""
    repeat = 0
    while num_bytes > 0:
        with _open(text) as file:
            while num_bytes > 0 and (lines := file.readlines(min(num_bytes, MB))):
                data = change(b"".join(lines), repeat)
                num_bytes -= len(data)
                yield data
        repeat += 1


@functools.cache
def _exchange(repeat: int) -> bytes:
    letters = list(string.ascii_lowercase)
    if repeat:
        random.Random(repeat).shuffle(letters)
    lower = "".join(letters)
    both = string.ascii_lowercase + string.ascii_uppercase
    return bytes.maketrans(both.encode(), (lower + lower.upper()).encode())


@contextlib.contextmanager
def _open(text: Path) -> Iterator[IO[bytes]]:
    opener = lzma.open if text.suffix == ".xz" else open
    with opener(text, "rb") as file:
        yield io.BufferedReader(file) if text.suffix == ".xz" else file  # type: ignore[arg-type]


def _is_flat(rows: list[tuple[float, float]]) -> bool:
    """Whether the last size cost no more, a byte and in memory, than the one before."""
    if len(rows) < 2:
        return True
    (before_rate, before_peak), (rate, peak) = rows[-2:]
    return rate <= TOLERANCE * before_rate and peak <= TOLERANCE * before_peak


if __name__ == "__main__":
    main()
