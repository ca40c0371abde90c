"""Whether the shard stage's ids are those of `tokenizers`, on every line of files of text.

    python benchmarks/ids_equal.py TOKENIZER FILE-OR-FOLDER …

TOKENIZER is the folder of a Tokenizer artifact. Files may be compressed (.gz, .xz); of Parquet
files the column `text` is read. Lines are compared as they stand (they end at the end-of-line
character alone; bytes that are no UTF-8 are replaced). Prints each file's lines and ids, and the
first lines that differ; exits with 1 if any does.
"""

from __future__ import annotations

import argparse
import gzip
import lzma
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from clozeflow.shards import encoding
from clozeflow.shards.encoding import Encoder
from clozeflow.tokenizer import loading

_BLOCK_BYTES = 4 << 20
_SHOWN = 5
_OPENERS = {".gz": gzip.open, ".xz": lzma.open}


def main() -> None:
    """Compares every file and prints what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokenizer", help="the folder of a Tokenizer artifact")
    parser.add_argument("texts", type=Path, nargs="+", help="files, or folders of them")
    arguments = parser.parse_args()
    encoder = encoding.encoder(arguments.tokenizer)
    truth = loading.load(arguments.tokenizer)
    print(f"{encoder.method}, against tokenizers")
    total = 0
    for path in _files(arguments.texts):
        num_lines = num_ids = num_different = 0
        for lines in _blocks(path):
            ids, different = _compare(encoder, truth, lines)
            for index in different[: max(0, _SHOWN - num_different)]:
                print(f"  {path.name}: differs: {lines[index][:200]!r}")
            num_lines, num_ids = num_lines + len(lines), num_ids + ids
            num_different += len(different)
        print(
            f"{path}: {num_lines:,} lines, {num_ids:,} ids, {num_different} different", flush=True
        )
        total += num_different
    sys.exit(1 if total else 0)


def _compare(encoder: Encoder, truth, lines: list[str]) -> tuple[int, list[int]]:  # noqa: ANN001
    """How many ids the lines have, and which lines have other ones by the encoder."""
    ids, lengths = encoder.encode(pa.array(lines, pa.string()))
    ends = np.cumsum(lengths)
    expected = [e.ids for e in truth.encode_batch_fast(lines, add_special_tokens=False)]
    different = [
        index
        for index, (end, length) in enumerate(zip(ends, lengths, strict=True))
        if ids[end - length : end].tolist() != expected[index]
    ]
    return sum(map(len, expected)), different


def _files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def _blocks(path: Path) -> Iterator[list[str]]:
    """The lines of a file, some MB at a time."""
    if path.suffix == ".parquet":
        for batch in pq.ParquetFile(path).iter_batches(columns=["text"]):
            lines = (line for text in batch.column(0).to_pylist() for line in text.split("\n"))
            yield list(lines)
        return
    with _OPENERS.get(path.suffix, open)(path, "rb") as file:
        while block := file.readlines(_BLOCK_BYTES):
            yield [line.removesuffix(b"\n").decode("utf-8", errors="replace") for line in block]


if __name__ == "__main__":
    main()
