"""Hashes of a document's 16-byte windows: the features by which texts are compared.

Windows of bytes need no words, so they serve every language: 16 bytes are about three words of
English and five characters of Chinese.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

WINDOW_BYTES = 16
_HALF = WINDOW_BYTES // 2
_PIECE_BYTES = 1 << 20  # hashes take eight times the text's memory
# Odd multipliers of xxHash and SplitMix64: they spread the bits of a product.
_MULTIPLIERS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
_MIX = np.uint64(0xBF58476D1CE4E5B9)


def hashes(data: bytes | memoryview) -> np.ndarray:
    """The hash of the window that begins at each byte: uint64 [max(0, len(data) - 15)]."""
    if len(data) < WINDOW_BYTES:
        return np.zeros(0, np.uint64)
    words = _words(data)
    mixed = words[:-_HALF] * _MULTIPLIERS[0]
    mixed ^= words[_HALF:] * _MULTIPLIERS[1]
    mixed ^= mixed >> np.uint64(29)
    mixed *= _MIX
    mixed ^= mixed >> np.uint64(32)
    return mixed


def sampled(data: bytes | memoryview, modulus: int) -> np.ndarray:
    """The hashes of one window in `modulus` (a power of two), the same in every text."""
    parts = [
        hashes(data[start : start + _PIECE_BYTES + WINDOW_BYTES - 1])
        for start in range(0, len(data), _PIECE_BYTES)
    ]
    kept = [part[part & np.uint64(modulus - 1) == 0] for part in parts]
    return np.concatenate(kept) if kept else np.zeros(0, np.uint64)


def of_each(texts: pa.StringArray) -> Iterator[np.ndarray]:
    """The hashes of the windows within each document; of a very long one, of a sample of them."""
    data, offsets = buffers(texts)
    for start, end in itertools.pairwise(offsets.tolist()):
        yield sampled(data[start:end], 1 << ((end - start) // _PIECE_BYTES).bit_length())


def buffers(texts: pa.StringArray) -> tuple[memoryview, np.ndarray]:
    """The array's bytes, and where in them each document begins: int64 [num_documents + 1]."""
    _, offsets, data = texts.buffers()
    if offsets is None or not len(texts):
        return memoryview(b""), np.zeros(len(texts) + 1, np.int64)
    own = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return memoryview(data or b""), own.astype(np.int64)


def slices(texts: pa.StringArray, num_bytes: int) -> Iterator[pa.StringArray]:
    """The array in slices of about so many bytes, of at least one document each."""
    ends = np.cumsum(pc.binary_length(texts).to_numpy(), dtype=np.int64)
    start = 0
    while start < len(texts):
        done = ends[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(ends, done + num_bytes, side="right")))
        yield texts.slice(start, end - start)
        start = end


def _words(data: bytes | memoryview) -> np.ndarray:
    """The eight bytes that begin at each byte, as numbers: uint64 [len(data) - 7]."""
    number = len(data) - _HALF + 1
    words = np.empty(number, np.uint64)
    for phase in range(_HALF):
        count = len(range(phase, number, _HALF))
        words[phase::_HALF] = np.frombuffer(data, "<u8", count=count, offset=phase)
    return words
