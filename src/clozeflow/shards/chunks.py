"""Documents encoded by way of their distinct words, where the tokenizer cuts each by itself.

Text repeats itself: 116 MB of English have 20 million words and a million distinct ones. Where a
tokenizer cuts at spaces before it looks for pieces, a word's ids do not depend on its
neighbours. Then each distinct word is encoded once, and documents are put together from arrays.

A chunk is a word with the space before it, or white space that is not a single space: the chunks
of a document, end to end, are the document. Shapes: D documents, C chunks, U distinct chunks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from clozeflow.shards import arrow
from clozeflow.tokenizer import normalizer

Encoded = tuple[np.ndarray, np.ndarray]
"""The ids of texts end to end (int32), and the number of ids of each text (int64)."""

EncodeTexts = Callable[[pa.StringArray], Encoded]

_SPACE, _NEWLINE = 0x20, 0x0A
_NORMALIZERS = frozenset(
    {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "BertNormalizer"}
)
"""They treat what stands before a space and what stands behind it apart."""
_SPLITTERS = frozenset({"BertPreTokenizer", "Whitespace", "WhitespaceSplit"})
"""They cut at all white space."""


def encode_by_chunks(texts: pa.StringArray, encode_distinct: EncodeTexts) -> Encoded:
    """The ids of documents, of which each distinct chunk is encoded once.

    Args:
        texts: D documents.
        encode_distinct: Gives the ids of each of U distinct chunks.
    """
    chunks, chunk_ends = cut(texts)
    encoded = chunks.dictionary_encode()
    ids, lengths = encode_distinct(encoded.dictionary)
    lengths = lengths.astype(np.int32)
    chosen = arrow.numbers(encoded.indices)
    lengths_of_chunks = lengths[chosen]
    token_ends = np.concatenate([[0], np.cumsum(lengths_of_chunks)])[chunk_ends]
    starts = np.cumsum(lengths, dtype=np.int32) - lengths
    tokens = ids[_ranges(starts[chosen], lengths_of_chunks)]
    return tokens, np.diff(token_ends, prepend=0)


def cut(texts: pa.StringArray) -> tuple[pa.StringArray, np.ndarray]:
    """The chunks of all documents (a view of their bytes), and how many end with each document.

    A document is cut before each space, or end of line, that follows something else.
    """
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    buffer = texts.buffers()[2] or pa.py_buffer(b"")
    octets = np.frombuffer(buffer, np.uint8)[: offsets[-1]]
    is_space = (octets == _SPACE) | (octets == _NEWLINE)
    begins = np.zeros(len(octets) + 1, bool)
    np.greater(is_space[1:], is_space[:-1], out=begins[1:-1])
    begins[: offsets[0]] = False
    begins[offsets] = True
    bounds = np.flatnonzero(begins).astype(np.int32)
    chunks = pa.StringArray.from_buffers(len(bounds) - 1, pa.py_buffer(bounds), buffer)
    return chunks, np.searchsorted(bounds, offsets[1:])


def words_are_independent(definition: Mapping[str, Any]) -> bool:
    """Whether the ids of a document are those of its chunks, end to end.

    So it is where the normaliser never reaches across the space before a word, and the
    pre-tokenizer cuts there. What is not known to do so is not trusted.

    Args:
        definition: The content of a `tokenizer.json`.
    """
    if any(not token["special"] for token in definition["added_tokens"]):
        return False  # such a token is looked for in the whole text
    cuts = _steps(definition["pre_tokenizer"])
    if definition["normalizer"] == json.loads(normalizer.normalizer().__getstate__()):
        # Single spaces are left, and none at the end: cutting before each is cutting words.
        return bool(cuts) and (_is_metaspace(cuts[0]) or _is_byte_level(cuts[-1]))
    normalizers = {step["type"] for step in _steps(definition["normalizer"])}
    return (
        normalizers <= _NORMALIZERS
        and bool(cuts)
        and (cuts[0]["type"] in _SPLITTERS or (len(cuts) == 1 and _is_byte_level(cuts[0])))
    )


def _steps(component: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """The parts of a normaliser or pre-tokenizer, sequences taken apart."""
    if component is None:
        return []
    parts = component.get("normalizers", component.get("pretokenizers"))
    return [component] if parts is None else [step for part in parts for step in _steps(part)]


def _is_metaspace(step: Mapping[str, Any]) -> bool:
    return step["type"] == "Metaspace" and step["split"] and step["prepend_scheme"] != "never"


def _is_byte_level(step: Mapping[str, Any]) -> bool:
    # Its expression never matches across a space that follows something else. (A prefix would be
    # put before a chunk that begins with an end of line.)
    return step["type"] == "ByteLevel" and step["use_regex"] and not step["add_prefix_space"]


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """`starts[0], starts[0] + 1, …` for `lengths[0]` places, then the same from `starts[1]` …."""
    if not lengths.all():
        starts, lengths = starts[lengths > 0], lengths[lengths > 0]
    if not len(starts):
        return np.empty(0, np.int32)
    # The sum of steps of one, with a jump where a range begins: faster than np.repeat.
    ends = np.cumsum(lengths, dtype=np.int32)
    steps = np.ones(ends[-1], np.int32)
    steps[0] = starts[0]
    steps[ends[:-1]] = starts[1:] - starts[:-1] - lengths[:-1] + 1
    return np.cumsum(steps, out=steps)
