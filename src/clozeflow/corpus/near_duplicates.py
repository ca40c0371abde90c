"""Documents that are nearly equal to another: MinHash signatures, compared where bands agree.

A document's signature (rensa's R-MinHash over the hashes of its 16-byte windows) is cut into
bands. Two documents that agree in a band are compared by a sketch of their signatures; with
10 bands of 6, a pair of similarity 0.8 agrees in one of them with a probability of 95 %, one of
0.9 with 99.95 %. The rows (band, document, sketch) go through the same shuffle as documents, so
memory is bounded whatever the size of the corpus.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clozeflow import storage
from clozeflow.corpus import cells, windows

NUM_PERMUTATIONS = 64
_NUM_BANDS, _ROWS_PER_BAND = 10, 6
_SEED = 42
_SAMPLING = 4
"""One window in so many is a feature: enough for short documents, and four times as fast."""
_MIN_FEATURES = 8
"""With fewer (below about 50 bytes) chance decides: such documents are not compared."""
_MAX_BYTES = 16 << 20
"""Longer documents are not compared."""
_SLICE_BYTES = 2 << 20
_HASHED_BYTES = 256 << 10  # what is made of it is many times larger, and stays in the cache
_SKETCH_BYTES = NUM_PERMUTATIONS * 2 // 8
"""Two bits of each value: a quarter of unequal values agree by chance, which is reckoned with."""
_BAND_SCHEMA = pa.schema(
    [
        ("band", pa.uint64()),
        ("split", pa.int8()),
        ("document", pa.uint64()),
        ("sketch", pa.binary(_SKETCH_BYTES)),
    ]
)
PAIR_SCHEMA = pa.schema(
    [
        ("document", pa.uint64()),
        ("near", pa.uint64()),
        ("near_split", pa.int8()),
        ("similarity", pa.float32()),
    ]
)
"""A document (the first 64 bits of its doc_id), and one that goes before it and is like it."""

_MULTIPLIERS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))


def write_bands(
    location: str,
    texts: pa.ChunkedArray,
    documents: np.ndarray,
    split: np.ndarray,
    *,
    num_cells: int,
) -> None:
    """Writes the rows that documents are compared by.

    Args:
        location: The file.
        texts: The documents' texts.
        documents: uint64 [num_documents], the first halves of their doc_ids.
        split: int8 [num_documents].
        num_cells: How finely the file is cut (see `cells`).
    """
    with storage.atomic_writer(location) as file:
        writer = cells.new_writer(file, _BAND_SCHEMA)
        start = 0
        for part in itertools.chain(*(windows.slices(c, _SLICE_BYTES) for c in texts.chunks)):
            rows, signatures = _signatures(part)
            _write_rows(writer, start + rows, signatures, documents, split, num_cells)
            start += len(part)
        writer.close()


def find_pairs(
    bands: Sequence[str], target: str, similarity: float, *, index: int, num_cells: int
) -> int:
    """Compares documents within one range of bands and writes the pairs that are alike.

    Args:
        bands: The files of `write_bands`.
        target: The file for the pairs.
        similarity: From where two documents are near duplicates.
        index: Which of the `num_cells` ranges of bands.
        num_cells: As the files are cut.

    Returns:
        The number of pairs.
    """
    tables = [
        table
        for location in bands
        for table in cells.read_range(
            location, _band_of, index=index, num_ranges=num_cells, num_cells=num_cells
        )
    ]
    table = pa.concat_tables([_BAND_SCHEMA.empty_table(), *tables]).combine_chunks()
    pairs = _compare(table, similarity)
    with storage.atomic_writer(target) as file, pa.ipc.new_file(file, PAIR_SCHEMA) as writer:
        writer.write_table(pairs)
    return len(pairs)


def read_pairs(locations: Sequence[str], *, index: int, num_ranges: int) -> pa.Table:
    """The near duplicates in one range of doc_ids, each once, in their order, as `PAIR_SCHEMA`.

    The `near` document is the first, by its id, of those that were found.
    """
    found = [PAIR_SCHEMA.empty_table()]
    for location in locations:
        with storage.open_read(location) as file:
            table = pa.ipc.open_file(file).read_all()
        documents = table.column("document").to_numpy()
        found.append(table.filter(pa.array(cells.range_of(documents, num_ranges) == index)))
    pairs = pa.concat_tables(found).combine_chunks()
    order = np.lexsort((pairs.column("near").to_numpy(), pairs.column("document").to_numpy()))
    documents = pairs.column("document").to_numpy()[order]
    is_first = np.concatenate([[True], documents[1:] != documents[:-1]])[: len(documents)]
    return pairs.take(pa.array(order[is_first]))


def _band_of(table: pa.Table) -> cells.Positions:
    return table.column("band").to_numpy()


def _signatures(texts: pa.StringArray) -> tuple[np.ndarray, np.ndarray]:
    """The documents that can be compared, by number, and their MinHash values.

    Returns:
        int64 [num_signatures] and uint32 [num_signatures, NUM_PERMUTATIONS].
    """
    rows, values = [np.zeros(0, np.int64)], [np.zeros((0, NUM_PERMUTATIONS), np.uint32)]
    start = 0
    for part in windows.slices(texts, _HASHED_BYTES):
        features, document = _features(part)
        counts = np.bincount(document, minlength=len(part))
        is_comparable = counts >= _MIN_FEATURES
        rows.append(start + np.flatnonzero(is_comparable))
        values.append(_min_hashes(features[is_comparable[document]], counts[is_comparable]))
        start += len(part)
    return np.concatenate(rows), np.concatenate(values)


def _min_hashes(features: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """MinHash values of documents whose features follow each other, so many of each."""
    import rensa

    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)
    matrix = rensa.RMinHash.digest_matrix_from_flat_token_hashes(
        features, offsets, NUM_PERMUTATIONS, _SEED
    )
    return np.array(matrix.to_rows(), np.uint32).reshape(-1, NUM_PERMUTATIONS)


def _features(texts: pa.StringArray) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of a sample of the windows, and the number of the document that each is in."""
    data, offsets = windows.buffers(texts)
    if offsets[-1] - offsets[0] > _MAX_BYTES:  # one document that is too long
        return np.zeros(0, np.uint64), np.zeros(0, np.int64)
    hashes = windows.hashes(data[offsets[0] : offsets[-1]])
    position = np.flatnonzero(hashes & np.uint64(_SAMPLING - 1) == 0)
    offsets = offsets - offsets[0]
    document = np.searchsorted(offsets, position, side="right") - 1
    is_within = position + windows.WINDOW_BYTES <= offsets[document + 1]
    return hashes[position[is_within]], document[is_within]


def _write_rows(
    writer: pa.RecordBatchFileWriter,
    rows: np.ndarray,
    signatures: np.ndarray,
    documents: np.ndarray,
    split: np.ndarray,
    num_cells: int,
) -> None:
    """One row a band of each signature, in the order of the bands."""
    band = _bands(signatures).ravel()
    order = np.argsort(band, kind="stable")
    owner = order // _NUM_BANDS  # the signature that each row is of
    sketches = _sketches(signatures)[owner]
    columns = [
        pa.array(band[order]),
        pa.array(split[rows][owner]),
        pa.array(documents[rows][owner]),
        pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(_SKETCH_BYTES), len(order), [None, pa.py_buffer(sketches)]
        ),
    ]
    run = pa.table(columns, schema=_BAND_SCHEMA)
    cells.write_run(writer, run, band[order], num_cells)


def _bands(signatures: np.ndarray) -> np.ndarray:
    """A hash of each band's number and values: uint64 [num_signatures, _NUM_BANDS]."""
    used = signatures[:, : _NUM_BANDS * _ROWS_PER_BAND].astype(np.uint64)
    values = used.reshape(-1, _NUM_BANDS, _ROWS_PER_BAND)
    mixed = np.broadcast_to(np.arange(1, _NUM_BANDS + 1, dtype=np.uint64), values.shape[:2]).copy()
    for row in range(_ROWS_PER_BAND):
        mixed = (mixed ^ values[:, :, row]) * _MULTIPLIERS[0]
        mixed ^= mixed >> np.uint64(29)
        mixed *= _MULTIPLIERS[1]
        mixed ^= mixed >> np.uint64(32)
    return mixed


def _sketches(signatures: np.ndarray) -> np.ndarray:
    """Two bits of each value, packed: uint8 [num_signatures, _SKETCH_BYTES]."""
    bits = (signatures * np.uint32(0x9E3779B1)) >> np.uint32(30)
    both = np.stack([bits >> 1, bits & 1], axis=-1).reshape(len(signatures), 2 * NUM_PERMUTATIONS)
    return np.packbits(both.astype(np.uint8), axis=1)


def _compare(table: pa.Table, similarity: float) -> pa.Table:
    """The pairs that are alike among rows that share a band.

    Held-out documents go before train, then the smaller id. A document is compared with the first
    of its band and with the one before it: a band that many share costs no more than others.
    """
    band, document = (table.column(n).to_numpy() for n in ("band", "document"))
    split = table.column("split").to_numpy()
    order = np.lexsort((document, -split, band))
    band, document, split = band[order], document[order], split[order]
    starts = np.flatnonzero(np.concatenate([[True], band[1:] != band[:-1]])[: len(band)])
    leader = starts[np.searchsorted(starts, np.arange(len(band)), side="right") - 1]
    later = np.flatnonzero(leader != np.arange(len(band)))
    earlier = np.concatenate([leader[later], later - 1])
    later = np.concatenate([later, later])
    sketch = _sketch_bytes(table)[order]
    alike = _similarity(sketch[later], sketch[earlier])
    is_near = (alike >= similarity) & (document[later] != document[earlier])
    later, earlier = later[is_near], earlier[is_near]
    return pa.table(
        [document[later], document[earlier], split[earlier], alike[is_near]], schema=PAIR_SCHEMA
    )


def _sketch_bytes(table: pa.Table) -> np.ndarray:
    chunks = table.column("sketch").chunks
    found = [
        np.frombuffer(c.buffers()[1], np.uint8).reshape(-1, _SKETCH_BYTES)[
            c.offset : c.offset + len(c)
        ]
        for c in chunks
        if len(c)
    ]
    return np.concatenate(found) if found else np.zeros((0, _SKETCH_BYTES), np.uint8)


def _similarity(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The Jaccard similarity that sketches tell: float32 [num_pairs].

    Pairs of bits agree where the values do, and by chance in a quarter of the other cases.
    """
    differs = left ^ right
    differs = (differs | (differs >> 1)) & 0x55  # one bit for each pair of bits
    agreement = 1 - np.bitwise_count(differs).sum(axis=1) / NUM_PERMUTATIONS
    return ((agreement - 0.25) / 0.75).astype(np.float32)


def is_among(doc_ids: pa.ChunkedArray, pairs: pa.Table) -> pa.ChunkedArray:
    """Which doc_ids (in hexadecimal) are near duplicates: bool [num_documents]."""
    wanted = [prefix_of(document) for document in pairs.column("document").to_pylist()]
    return pc.is_in(_prefixes(doc_ids), value_set=pa.array(wanted, pa.string()))


def find_text(documents: pa.Table, document: int) -> str:
    """The text of the document whose doc_id begins so, or "" if it is not in the table."""
    is_it = pc.equal(_prefixes(documents.column("doc_id")), prefix_of(document))
    texts = documents.filter(is_it).column("text")
    return texts[0].as_py() if len(texts) else ""


def prefix_of(document: int) -> str:
    """The first 64 bits of a doc_id as its first 16 digits."""
    return f"{document:016x}"


def _prefixes(doc_ids: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.utf8_slice_codeunits(doc_ids, 0, 16)
