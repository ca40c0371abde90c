"""From the order of the sources to the order of the documents' hashes, on disk.

Documents are stored in `doc_id` order, so that neighbours are not from one file and nothing
depends on the order of the input. Reading spills sorted runs; then every bucket (a range of
hashes) is gathered, deduplicated and sorted by itself.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Sequence
from typing import IO

import numpy as np
import pyarrow as pa

from clozeflow.corpus import cells, filters, windows
from clozeflow.corpus.config import CorpusConfig
from clozeflow.corpus.filters import Reason

Keys = np.ndarray
"""uint64 [num_documents, 2]: the doc_ids as pairs of big-endian halves."""

DOC_ID_BYTES = 16
SPLITS = ("train", "validation", "test")
NO_SPLIT = 0
"""A source's own split by number: 0 is none, else 1 + the index into `SPLITS`."""
_SPILL_SCHEMA = pa.schema(
    [
        ("key", pa.binary(DOC_ID_BYTES)),
        ("text", pa.string()),
        ("source", pa.string()),
        ("own_split", pa.uint8()),
        ("reason", pa.uint8()),
        ("copies", pa.int64()),
    ]
)
DOCUMENT_SCHEMA = pa.schema(
    [("text", pa.string()), ("doc_id", pa.string()), ("source", pa.string())]
)
DROPPED_SCHEMA = pa.schema([*DOCUMENT_SCHEMA, ("reason", pa.string()), ("copies", pa.int64())])
_MAX_EXAMPLES = 20
_EXCERPT = 200


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bucket:
    """Documents of a range of hashes: distinct, in order, with their split."""

    documents: pa.Table
    """As `DOCUMENT_SCHEMA`."""
    hashes: np.ndarray
    """uint64 [num_documents]: the first halves of the doc_ids."""
    split: np.ndarray
    """int8 [num_documents], an index into `SPLITS`."""
    dropped: pa.Table
    """As `DROPPED_SCHEMA`: what filters dropped (if it was spilled) and duplicates."""
    num_duplicates: int
    contamination: dict[str, int]
    """Documents that stand in two splits of their sources, by the names of those."""
    contaminated: list[dict[str, str]]
    """The first few of them: `doc_id`, `splits`, `sources`, `text` (its beginning)."""
    repeated: list[dict[str, object]]
    """The documents with the most copies: `copies`, `text` (its beginning)."""


def hash_texts(texts: pa.StringArray) -> bytes:
    """The doc_ids of texts, 16 bytes each, one after the other: BLAKE2b of the UTF-8 bytes."""
    data, offsets = windows.buffers(texts)
    return b"".join(
        hashlib.blake2b(data[start:end], digest_size=DOC_ID_BYTES).digest()
        for start, end in itertools.pairwise(offsets.tolist())
    )


def keys_of(digests: bytes | pa.Buffer) -> Keys:
    """The doc_ids as numbers that sort as the ids do."""
    return np.frombuffer(digests, ">u8").astype(np.uint64).reshape(-1, 2)


def doc_ids_of(keys: Keys) -> pa.StringArray:
    """The doc_ids in hexadecimal, 32 digits each."""
    digits = keys.astype(">u8").tobytes().hex().encode()
    offsets = np.arange(len(keys) + 1, dtype=np.int32) * (2 * DOC_ID_BYTES)
    return pa.StringArray.from_buffers(len(keys), pa.py_buffer(offsets), pa.py_buffer(digits))


def split_of(keys: Keys, config: CorpusConfig) -> np.ndarray:
    """Each document's split, an index into `SPLITS` (int8), as a function of its hash alone.

    Validation is taken from one end of the hash's range and test from the other: a change of one
    fraction moves no document between the two. The bits are not those of the order.
    """
    validation, test = config.hash_fractions()
    position = (keys[:, 1] >> np.uint64(32)).astype(np.float64) / 2.0**32
    split = np.zeros(len(keys), np.int8)
    split[position < validation] = 1
    split[position >= 1 - test] = 2
    return split


def is_left_out(keys: Keys, share: float) -> np.ndarray:
    """Which documents a source's weight leaves out: bool [num_documents].

    A text that a smaller share keeps, a larger one keeps too. The bits are not the split's.
    """
    low_bits = keys[:, 1] & np.uint64(0xFFFFFFFF)
    return low_bits.astype(np.float64) / 2.0**32 >= share


class Spiller:
    """Takes documents in any order and writes them as sorted runs (see `cells`)."""

    def __init__(self, sink: IO[bytes], num_cells: int, run_bytes: int) -> None:
        self._writer = cells.new_writer(sink, _SPILL_SCHEMA)
        self._num_cells, self._run_bytes = num_cells, run_bytes
        self._held: list[pa.Table] = []
        self._held_bytes = 0

    def add(
        self,
        texts: pa.StringArray,
        digests: bytes,
        source: str,
        own_split: int,
        reasons: np.ndarray,
    ) -> None:
        """Takes clean texts of a source, their hashes, and why they are dropped (0: not)."""
        number = len(texts)
        columns = [
            pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(DOC_ID_BYTES), number, [None, pa.py_buffer(digests)]
            ),
            texts,
            pa.repeat(pa.scalar(source), number),
            pa.array(np.full(number, own_split, np.uint8)),
            pa.array(reasons),
            pa.array(np.ones(number, np.int64)),
        ]
        self._held.append(pa.table(columns, schema=_SPILL_SCHEMA))
        self._held_bytes += texts.nbytes
        if self._held_bytes >= self._run_bytes:
            self._flush()

    def close(self) -> None:
        """Writes what is left, and the file's end."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._held:
            run, keys = _merge_equal(pa.concat_tables(self._held))
            self._held, self._held_bytes = [], 0
            cells.write_run(self._writer, run, keys[:, 0], self._num_cells)


def read_bucket(
    spills: Sequence[str], config: CorpusConfig, *, index: int, num_buckets: int, num_cells: int
) -> Bucket:
    """Gathers one of `num_buckets` equal ranges of hashes from spilled files.

    Of equal texts one stays: the one in a held-out split of its source's own (test before
    validation before train), and of those the one whose source's name is first. Which one that
    is, and the order, depend on the documents alone.
    """
    tables = [
        table
        for spill in spills
        for table in cells.read_range(
            spill, _positions, index=index, num_ranges=num_buckets, num_cells=num_cells
        )
    ]
    table, keys = _merge_equal(pa.concat_tables([_SPILL_SCHEMA.empty_table(), *tables]))
    first = _starts(keys)
    reason = table.column("reason").to_numpy()
    is_kept = np.zeros(len(table), bool)
    is_kept[first] = reason[first] == 0
    kept, kept_keys = table.filter(pa.array(is_kept)), keys[is_kept]
    own = table.column("own_split").to_numpy()
    contamination, contaminated = _contamination(table, keys, first)
    return Bucket(
        documents=_documents(kept, kept_keys),
        hashes=kept_keys[:, 0],
        split=_resolve(own[is_kept], split_of(kept_keys, config)),
        dropped=_dropped(table, keys, is_kept),
        num_duplicates=int(table.column("copies").to_numpy()[reason == 0].sum()) - len(kept),
        repeated=_repeated(table, first),
        contamination=contamination,
        contaminated=contaminated,
    )


def _resolve(own_split: np.ndarray, by_hash: np.ndarray) -> np.ndarray:
    """The source's own split where it has one, else the hash's: int8 [num_documents]."""
    return np.where(own_split > NO_SPLIT, own_split.astype(np.int8) - 1, by_hash).astype(np.int8)


def _positions(table: pa.Table) -> cells.Positions:
    return _keys_of_table(table)[:, 0]


def _keys_of_table(table: pa.Table) -> Keys:
    chunks = table.column("key").chunks
    found = [keys_of(c.buffers()[1])[c.offset : c.offset + len(c)] for c in chunks if len(c)]
    return np.concatenate(found) if found else np.zeros((0, 2), np.uint64)


def _merge_equal(table: pa.Table) -> tuple[pa.Table, Keys]:
    """Rows in order, with their keys; rows equal in all but copies become one, copies added up.

    The order is by hash, then kept before dropped, held out before train, and by source.
    """
    keys = _keys_of_table(table)
    others = [
        table.column("reason").to_numpy().astype(np.uint64),
        np.uint64(255) - table.column("own_split").to_numpy().astype(np.uint64),
        _ranks(table.column("source")),
    ]
    order = np.lexsort((*others[::-1], keys[:, 1], keys[:, 0]))
    rows = np.column_stack([keys, *others])[order]
    first = _starts(rows)
    copies = table.column("copies").to_numpy()[order]
    merged = table.take(pa.array(order[first]))
    summed = np.add.reduceat(copies, first) if len(first) else copies
    return merged.set_column(merged.num_columns - 1, "copies", pa.array(summed)), rows[first, :2]


def _ranks(column: pa.ChunkedArray) -> np.ndarray:
    """The rank of each string among the distinct ones: uint64 [num_rows]."""
    encoded = column.dictionary_encode()
    names = column.unique().to_pylist()
    rank = {name: index for index, name in enumerate(sorted(names, key=str.encode))}
    found = [
        np.array([rank[name] for name in chunk.dictionary.to_pylist()], np.uint64)[
            chunk.indices.to_numpy()
        ]
        for chunk in encoded.chunks
        if len(chunk)
    ]
    return np.concatenate(found) if found else np.zeros(0, np.uint64)


def _starts(rows: np.ndarray) -> np.ndarray:
    """Where, in sorted rows, one begins that is not as the one before."""
    if not len(rows):
        return np.zeros(0, np.int64)
    differs = np.any(rows[1:] != rows[:-1], axis=1)
    return np.concatenate([[0], np.flatnonzero(differs) + 1])


def _documents(table: pa.Table, keys: Keys) -> pa.Table:
    columns = [table.column("text"), doc_ids_of(keys), table.column("source")]
    return pa.table(columns, schema=DOCUMENT_SCHEMA)


def _dropped(table: pa.Table, keys: Keys, is_kept: np.ndarray) -> pa.Table:
    """All rows that are not kept, and the further copies of those that are."""
    copies = table.column("copies").to_numpy() - is_kept
    reason = table.column("reason").to_numpy().copy()
    reason[reason == 0] = filters.code_of(Reason.DUPLICATE)
    rows = np.flatnonzero(copies)
    dropped = _documents(table.take(pa.array(rows)), keys[rows])
    names = pa.array([filters.CODES[code] for code in reason[rows].tolist()], pa.string())
    return dropped.append_column("reason", names).append_column("copies", pa.array(copies[rows]))


def _repeated(table: pa.Table, first: np.ndarray) -> list[dict[str, object]]:
    """The kept documents that came most often, from whatever source."""
    copies = table.column("copies").to_numpy() * (table.column("reason").to_numpy() == 0)
    total = np.add.reduceat(copies, first) if len(first) else copies
    order = np.argsort(-total, kind="stable")[:_MAX_EXAMPLES]
    order = order[total[order] > 1]
    texts = table.column("text").take(pa.array(first[order])).to_pylist()
    return [
        {"copies": number, "text": text[:_EXCERPT]}
        for number, text in zip(total[order].tolist(), texts, strict=True)
    ]


def _contamination(
    table: pa.Table, keys: Keys, first: np.ndarray
) -> tuple[dict[str, int], list[dict[str, str]]]:
    """Documents in a held-out split of a source's own that stand in another split too.

    Text that came without a split counts as train: that is where it would have gone.
    """
    own = np.maximum(table.column("own_split").to_numpy(), 1)
    own[table.column("reason").to_numpy() > 0] = 0
    group = np.searchsorted(first, np.arange(len(table)), side="right") - 1
    stands_in = np.zeros((len(first), len(SPLITS)), bool)
    for number in range(len(SPLITS)):
        stands_in[group[own == number + 1], number] = True
    counts: dict[str, int] = {}
    examples: list[dict[str, str]] = []
    for index in np.flatnonzero(stands_in.sum(axis=1) > 1).tolist():
        splits = "+".join(
            name for name, is_in in zip(SPLITS, stands_in[index], strict=True) if is_in
        )
        counts[splits] = counts.get(splits, 0) + 1
        if len(examples) < _MAX_EXAMPLES:
            rows = table.filter(pa.array((group == index) & (own > 0)))
            examples.append(
                {
                    "doc_id": doc_ids_of(keys[first[index]][None])[0].as_py(),
                    "splits": splits,
                    "sources": ", ".join(sorted(set(rows.column("source").to_pylist()))),
                    "text": rows.column("text")[0].as_py()[:_EXCERPT],
                }
            )
    return counts, examples
