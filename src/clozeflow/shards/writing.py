"""Rows to files: TFRecord shards, hashed while they are written."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from typing import Any

from clozeflow import storage
from clozeflow.shards import records
from clozeflow.shards.config import Compression
from clozeflow.shards.packing import Rows

SUFFIXES = {Compression.NONE: ".tfrecord", Compression.GZIP: ".tfrecord.gz"}
_ROWS_AT_ONCE = 1024
"""Examples serialised together: enough to be fast, little enough to stay in the cache."""
_GZIP_LEVEL = 6


def write_shards(
    rows: Rows, stem: str, *, examples_per_shard: int, compression: Compression
) -> list[dict[str, Any]]:
    """Writes rows to as few files as may be, of equal numbers of rows but for one.

    Args:
        rows: N examples.
        stem: The files' location, up to a number and the suffix.
        examples_per_shard: The most that a file may hold.
        compression: How the files are compressed.

    Returns:
        For each file its `location`, `num_bytes`, `sha256` and `counts`.
    """
    num_files = -(-len(rows) // examples_per_shard)
    ends = [len(rows) * (index + 1) // num_files for index in range(num_files)]
    return [
        _write_shard(
            rows.take(slice(start, end)), f"{stem}-{index:05d}{SUFFIXES[compression]}", compression
        )
        for index, (start, end) in enumerate(zip([0, *ends], ends, strict=False))
    ]


def _write_shard(rows: Rows, location: str, compression: Compression) -> dict[str, Any]:
    """Writes one file, which appears whole or not at all."""
    digest, num_bytes = hashlib.sha256(), 0
    blocks = _blocks(rows)
    with storage.atomic_writer(location) as file:
        for block in _gzipped(blocks) if compression is Compression.GZIP else blocks:
            file.write(block)
            digest.update(block)
            num_bytes += len(block)
    return {
        "location": location,
        "num_bytes": num_bytes,
        "sha256": digest.hexdigest(),
        "counts": {"num_examples": len(rows), "num_tokens": rows.num_tokens},
    }


def _blocks(rows: Rows) -> Iterator[bytes]:
    masks = rows.attention_mask
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        block = slice(start, start + _ROWS_AT_ONCE)
        yield records.serialize(rows.input_ids[block], masks[block])


def _gzipped(blocks: Iterator[bytes]) -> Iterator[bytes]:
    # zlib's own gzip header has neither a time nor a name: the same rows give the same bytes.
    packer = zlib.compressobj(_GZIP_LEVEL, wbits=16 + zlib.MAX_WBITS)
    for block in blocks:
        yield packer.compress(block)
    yield packer.flush()
