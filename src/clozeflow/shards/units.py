"""One unit of the shard stage: a part of a corpus to shards of its own.

A unit depends on its part, the tokenizer and the settings alone, so that units may run anywhere
and in any order. Parts hold documents in the order of a hash, and a unit's rows are shuffled:
consecutive rows are not one document. The tokens at a unit's end that fill no row are handed
back: the stage packs those of all units together.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from clozeflow import storage
from clozeflow.corpus import reader
from clozeflow.errors import UserError
from clozeflow.shards import encoding, packing, records
from clozeflow.shards.order import permutation
from clozeflow.shards.packing import Rows

ROWS_AT_ONCE = 1024
"""Examples serialised together: enough to be fast, little enough to stay in the cache."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unit:
    """What one unit of work needs to know; it is sent to other processes."""

    split: str
    index: int
    """The number of the part in its split."""
    part: str
    """The location of the Parquet file."""
    tokenizer: str
    """The folder of the tokenizer."""
    folder: str
    """Where the unit's files are put."""
    seq_len: int
    examples_per_shard: int
    seed: int


def write_unit(unit: Unit) -> dict[str, Any]:
    """Encodes, packs, shuffles and writes a part.

    Returns:
        `files`: what was written, as `write_shard` describes it; `rest`: the ids that fill no
        row; `num_documents` and `num_document_tokens` of the part. All JSON-serialisable.
    """
    encoder = encoding.encoder(unit.tokenizer)
    rest = np.empty(0, np.int32)
    packed, num_documents, num_tokens = [], 0, 0
    for batch in reader.read_part(unit.part):
        ids, lengths = encoder.encode(batch.column(0).to_pylist())
        _check_ids(unit, ids, encoder.vocab_size)
        stream = np.concatenate([rest, packing.to_stream(ids, lengths)])
        rows, rest = packing.full_rows(stream, unit.seq_len)
        packed.append(rows)
        num_documents += len(lengths)
        num_tokens += len(ids)
    rows = packing.concatenate(packed, unit.seq_len)
    rows = rows.take(permutation(len(rows), unit.seed, unit.split, unit.index))
    return {
        "files": list(
            write_shards(rows, unit.folder, f"{unit.index:05d}", unit.examples_per_shard)
        ),
        "rest": rest.tolist(),
        "num_documents": num_documents,
        "num_document_tokens": num_tokens,
    }


def write_shards(
    rows: Rows, folder: str, name: str, examples_per_shard: int
) -> Iterator[dict[str, Any]]:
    """Writes rows to as few files as may be, of equal sizes but for one row."""
    num_files = -(-len(rows) // examples_per_shard)
    ends = [len(rows) * (i + 1) // num_files for i in range(num_files)]
    for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        path = storage.join(folder, f"{name}-{number:05d}.tfrecord")
        yield write_shard(rows.take(np.arange(start, end)), path)


def write_shard(rows: Rows, location: str) -> dict[str, Any]:
    """Writes one TFRecord file, which appears whole or not at all.

    Returns:
        `location`, `num_bytes`, `sha256`, and `counts` for the manifest.
    """
    digest, num_bytes = hashlib.sha256(), 0
    with storage.atomic_writer(location) as file:
        for block in _blocks(rows):
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
    for start in range(0, len(rows), ROWS_AT_ONCE):
        block = slice(start, start + ROWS_AT_ONCE)
        yield b"".join(records.serialize(rows.input_ids[block], masks[block]))


def _check_ids(unit: Unit, ids: np.ndarray, vocab_size: int) -> None:
    """Refuses ids that no model of this tokenizer has, and special ones: the text has none."""
    special = (ids < packing.NUM_SPECIAL) & (ids != packing.UNK_ID)
    wrong = special | (ids >= vocab_size)
    if wrong.any():
        raise UserError(
            unit.tokenizer,
            f"gives a document of {unit.part} an id that no text may have",
            got=int(ids[wrong][0]),
            expected=f"{packing.UNK_ID}, or {packing.NUM_SPECIAL} to {vocab_size - 1}",
            fix="Make the tokenizer again.",
        )
