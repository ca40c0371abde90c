"""From the order of the sources to the order of the documents' hashes, on disk.

Documents are stored in `doc_id` order, so that neighbours are not from one file and nothing
depends on the order of the input. Reading units spill sorted runs that are cut into cells by
the first bits of the hash; then every bucket (a range of hashes) is gathered, deduplicated and
sorted by itself. Memory is bounded by a block and by a bucket.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from clozeflow import storage
from clozeflow.corpus.config import CorpusConfig

Keys = np.ndarray
"""uint64 [num_documents, 2]: the doc_ids as pairs of big-endian halves."""

DOC_ID_BYTES = 16
SPILL_BYTES = 16 << 20
"""Documents are sorted and spilled when so much text is together."""
SPLITS = ("train", "validation", "test")
_SPILL_SCHEMA = pa.schema(
    [
        ("key", pa.binary(DOC_ID_BYTES)),
        ("text", pa.string()),
        ("source", pa.string()),
        ("copies", pa.int64()),
    ]
)
DOCUMENT_SCHEMA = pa.schema(
    [("text", pa.string()), ("doc_id", pa.string()), ("source", pa.string())]
)
_IPC_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bucket:
    """Documents of a range of hashes: distinct, in order, with their split."""

    documents: pa.Table
    """As `DOCUMENT_SCHEMA`."""
    split: np.ndarray
    """int8 [num_documents], an index into `SPLITS`."""
    num_duplicates: int


def hash_texts(texts: pa.StringArray) -> bytes:
    """The doc_ids of texts, 16 bytes each, one after the other: BLAKE2b of the UTF-8 bytes."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)
    offsets = offsets[texts.offset : texts.offset + len(texts) + 1].tolist()
    data = memoryview(texts.buffers()[2] or b"")
    return b"".join(
        hashlib.blake2b(data[start:end], digest_size=DOC_ID_BYTES).digest()
        for start, end in itertools.pairwise(offsets)
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
    position = (keys[:, 1] >> np.uint64(32)).astype(np.float64) / 2.0**32
    split = np.zeros(len(keys), np.int8)
    split[position < config.validation_fraction] = 1
    split[position >= 1 - config.test_fraction] = 2
    return split


class Spiller:
    """Takes documents in any order and writes them to a file as sorted runs, cut into cells.

    Batch `run * num_cells + cell` of the Arrow file holds the run's documents of that cell.
    """

    def __init__(self, sink: pa.NativeFile, num_cells: int) -> None:
        self._writer = pa.ipc.new_file(sink, _SPILL_SCHEMA, options=_IPC_OPTIONS)
        self._num_cells = num_cells
        self._held: list[tuple[pa.StringArray, str]] = []
        self._held_bytes = 0

    def add(self, texts: pa.StringArray, source: str) -> None:
        """Takes the clean texts of a source."""
        self._held.append((texts, source))
        self._held_bytes += texts.nbytes
        if self._held_bytes >= SPILL_BYTES:
            self._flush()

    def close(self) -> None:
        """Writes what is left, and the file's end."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if not self._held:
            return
        run = _merge_equal(_run_of(self._held))
        self._held, self._held_bytes = [], 0
        cells = cell_of(keys_of_table(run), self._num_cells)
        borders = np.searchsorted(cells, np.arange(self._num_cells + 1))
        for start, end in itertools.pairwise(borders):
            self._writer.write_batch(_one_batch(run.slice(start, end - start)))


def cell_of(keys: Keys, num_cells: int) -> np.ndarray:
    """Each document's cell: the first bits of its hash."""
    bits = num_cells.bit_length() - 1
    assert num_cells == 1 << bits, num_cells
    if bits == 0:
        return np.zeros(len(keys), np.int64)
    return (keys[:, 0] >> np.uint64(64 - bits)).astype(np.int64)


def keys_of_table(table: pa.Table) -> Keys:
    """The keys of a spilled table."""
    column = table.column("key").combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # of no rows
        return np.zeros((0, 2), np.uint64)
    keys = keys_of(column.buffers()[1])
    return keys[column.offset : column.offset + len(column)]


def read_bucket(
    spills: Sequence[str], config: CorpusConfig, *, index: int, num_buckets: int, num_cells: int
) -> Bucket:
    """Gathers one of `num_buckets` equal ranges of hashes from spilled files.

    Of equal texts one stays: the one whose source's name is first. Which one that is, and the
    order, depend on the documents alone.
    """
    tables: list[pa.Table] = []
    for spill in spills:
        tables += _read_range(spill, index=index, num_buckets=num_buckets, num_cells=num_cells)
    table = pa.concat_tables(tables) if tables else _SPILL_SCHEMA.empty_table()
    num_documents = int(table.column("copies").to_numpy().sum())
    table = _merge_equal(table)
    keys = keys_of_table(table)
    first = _starts(keys)
    table, keys = table.take(pa.array(first)), keys[first]
    documents = pa.table(
        [table.column("text"), doc_ids_of(keys), table.column("source")], schema=DOCUMENT_SCHEMA
    )
    return Bucket(
        documents=documents,
        split=split_of(keys, config),
        num_duplicates=num_documents - len(table),
    )


def _read_range(spill: str, *, index: int, num_buckets: int, num_cells: int) -> Iterator[pa.Table]:
    """The rows of a spilled file that belong to a bucket."""
    per_bucket = max(1, num_cells // num_buckets)
    first = index * num_cells // num_buckets
    with storage.open_read(spill) as file, pa.ipc.open_file(file) as reader:
        for run in range(reader.num_record_batches // num_cells):
            for cell in range(first, first + per_bucket):
                batch = reader.get_batch(run * num_cells + cell)
                if batch.num_rows:
                    table = pa.Table.from_batches([batch])
                    if num_buckets > num_cells:
                        buckets = cell_of(keys_of_table(table), num_buckets)
                        table = table.filter(pa.array(buckets == index))
                    yield table


def _run_of(held: Sequence[tuple[pa.StringArray, str]]) -> pa.Table:
    texts = [texts for texts, _ in held]
    sources = [pa.repeat(pa.scalar(source), len(texts)) for texts, source in held]
    digests = b"".join(hash_texts(t) for t in texts)
    num_documents = len(digests) // DOC_ID_BYTES
    keys = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(DOC_ID_BYTES), num_documents, [None, pa.py_buffer(digests)]
    )
    copies = pa.array(np.ones(num_documents, np.int64))
    return pa.table(
        [keys, pa.chunked_array(texts), pa.chunked_array(sources), copies], schema=_SPILL_SCHEMA
    )


def _merge_equal(table: pa.Table) -> pa.Table:
    """Sorted by hash and source; equal documents of one source become one, copies added up."""
    keys = keys_of_table(table)
    source = _ranks(table.column("source"))
    order = np.lexsort((source, keys[:, 1], keys[:, 0]))
    keys, source = keys[order], source[order]
    first = _starts(np.column_stack([keys, source]))
    copies = table.column("copies").to_numpy()[order]
    merged = table.take(pa.array(order[first]))
    summed = np.add.reduceat(copies, first) if len(first) else copies
    return merged.set_column(merged.num_columns - 1, "copies", pa.array(summed))


def _ranks(column: pa.ChunkedArray) -> np.ndarray:
    """The rank of each string among the distinct ones."""
    encoded = column.dictionary_encode().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # of no rows
        return np.zeros(0, np.uint64)
    names = encoded.dictionary.to_pylist()
    rank = np.empty(len(names), np.uint64)
    rank[sorted(range(len(names)), key=lambda i: names[i].encode())] = np.arange(len(names))
    return rank[encoded.indices.to_numpy()]


def _starts(rows: np.ndarray) -> np.ndarray:
    """Where, in sorted rows, one begins that is not as the one before."""
    if not len(rows):
        return np.zeros(0, np.int64)
    differs = np.any(rows[1:] != rows[:-1], axis=1)
    return np.concatenate([[0], np.flatnonzero(differs) + 1])


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    table = table.combine_chunks()
    batches = table.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
