"""One unit of the shard stage: a part of a corpus to shards of its own.

A unit depends on its part, the tokenizer and the settings alone, so that units may run anywhere
and in any order. Parts hold documents in the order of a hash, and a unit's rows are shuffled:
consecutive rows are not one document. The tokens at a unit's end that fill no row are handed
back: the stage packs those of all units together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clozeflow import storage
from clozeflow.corpus import reader
from clozeflow.errors import UserError
from clozeflow.shards import arrow, encoding, packing, provenance
from clozeflow.shards.config import ShardConfig
from clozeflow.shards.encoding import Encoder
from clozeflow.shards.order import permutation
from clozeflow.shards.statistics import Statistics
from clozeflow.shards.writing import write_shards
from clozeflow.tokenizer.special import SpecialIds

_ENCODED_BYTES = 16 << 20
"""Text that is encoded at a time: more finds few words again, and needs more memory."""
_COMPARED_BYTES = _ENCODED_BYTES // 512
"""The text of these that is encoded twice, to compare the ids: a fiftieth of the time."""


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
    special_ids: SpecialIds
    folder: str
    """Where the unit's files are put."""
    config: ShardConfig


def write_unit(unit: Unit) -> dict[str, Any]:
    """Encodes, packs, shuffles and writes a part.

    Returns:
        `files`: what `write_shards` says of them; `rest`: the ids that fill no row; `rest_sources`:
        where these come from, if that is kept (see `provenance`); `statistics`: what
        `Statistics.to_dict` gives; `method` and `vocab_size`: the encoder's. All JSON-serialisable.
    """
    encoder = encoding.encoder(unit.tokenizer)
    packer = packing.packer(unit.config.packing, seq_len=unit.config.seq_len, ids=unit.special_ids)
    statistics, packed = Statistics(), []
    rest, stream = np.empty(0, np.int32), provenance.Stream()
    for number, documents in enumerate(_documents(unit.part)):
        ids, lengths = _encode(unit, encoder, documents["text"], number, statistics)
        statistics.count(documents["source"], lengths)
        num_before = stream.num_ids - len(rest)
        stream.add(documents["source"], packer.lengths_in_stream(lengths))
        rows, rest = packer.cut(np.concatenate([rest, packer.join(ids, lengths)]))
        packed.append(rows.behind(num_before).narrowed(encoder.vocab_size))
    rows = packing.concatenate(packed, unit.config.seq_len)
    del packed
    rows = rows.take(permutation(len(rows), unit.config.seed, unit.split, unit.index))
    files = write_shards(
        rows,
        storage.join(unit.folder, f"{unit.index:05d}"),
        examples_per_shard=unit.config.examples_per_shard,
        compression=unit.config.compression,
    )
    if provenance.is_kept(unit.split):
        provenance.write_beside(files, rows, stream, packer)
    return {
        "files": files,
        "rest": rest.tolist(),
        "rest_sources": stream.tail(len(rest)),
        "statistics": statistics.to_dict(),
        "method": encoder.method,
        "vocab_size": encoder.vocab_size,
    }


def _documents(part: str) -> Iterator[dict[str, pa.StringArray]]:
    """The texts and sources of a part, about `_ENCODED_BYTES` at a time."""
    waiting: list[pa.RecordBatch] = []
    num_bytes = 0
    for batch in reader.read_part(part, columns=("text", "source"), batch_size=1024):
        waiting.append(batch)
        num_bytes += batch.nbytes
        if num_bytes >= _ENCODED_BYTES:
            yield _columns(waiting)
            waiting, num_bytes = [], 0
    if waiting:
        yield _columns(waiting)


def _columns(batches: list[pa.RecordBatch]) -> dict[str, pa.StringArray]:
    table = pa.Table.from_batches(batches).combine_chunks()
    return {name: table.column(name).chunk(0).cast(pa.string()) for name in table.column_names}


def _encode(
    unit: Unit, encoder: Encoder, texts: pa.StringArray, number: int, statistics: Statistics
) -> encoding.Encoded:
    """The documents' ids, checked: they are the tokenizer's own, and such as a text may have."""
    encoded = encoder.encode(texts)
    sample = _sample(unit, texts, number)
    encoding.check_sample(encoder, texts, encoded, sample)
    special = unit.special_ids
    ids = encoded[0]
    not_text = [special_id for special_id in special.all() if special_id != special.unk]
    is_wrong = (ids >= encoder.vocab_size) | np.isin(ids, not_text)
    if is_wrong.any():
        raise UserError(
            unit.tokenizer,
            f"gives a document of {unit.part} an id that no text may have",
            got=int(ids[is_wrong][0]),
            expected=f"below {encoder.vocab_size}, and none of {not_text}",
            fix="Make the tokenizer again.",
        )
    statistics.num_compared += len(sample)
    statistics.num_unknown_tokens += int(np.count_nonzero(ids == special.unk))
    statistics.text_bytes += int(pc.sum(pc.binary_length(texts)).as_py() or 0)
    return encoded


def _sample(unit: Unit, texts: pa.StringArray, number: int) -> np.ndarray:
    """The documents to compare: chosen by the seed, and few enough to cost little."""
    num_bytes = arrow.numbers(pc.binary_length(texts))
    chosen = permutation(len(texts), unit.config.seed, unit.split, unit.index, number)
    chosen = chosen[num_bytes[chosen] <= _COMPARED_BYTES]
    return chosen[np.cumsum(num_bytes[chosen]) <= _COMPARED_BYTES]
