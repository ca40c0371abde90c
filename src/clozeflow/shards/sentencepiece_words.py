"""Words encoded by SentencePiece, ten times as fast as `tokenizers` does it, with the same ids.

Both look for the pieces with the greatest sum of scores, and of equal sums both take the one
that they find first, in the same order. They differ in precision: SentencePiece adds float32,
`tokenizers` float64. Where all scores are multiples of a power of two, and the sums small enough
for float32 to hold exactly, neither rounds, and their choices are the same, ties included. The
tokenizer stage makes such scores. Words for which a sum could grow too large, or with a character
that no piece is, or with white space inside, are left to `tokenizers`.

SentencePiece takes many short texts slowly, so words are given to it in groups, and found again
by the `▁` that begins each.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sentencepiece

from clozeflow.shards import arrow
from clozeflow.shards.chunks import Encoded, EncodeTexts
from clozeflow.shards.records import varint
from clozeflow.tokenizer.normalizer import SPACE_MARK

_LARGEST_EXACT = 2.0**24
"""Whole numbers up to this are exact in float32; so are sums up to this many score steps."""
HIDDEN = "\x01"
"""Stands before pieces that no text may match: cleaned documents have no control characters."""
_SMALLEST_STEP = 2.0**-12
_GROUP_CHARS = 256
_NUM_CODE_POINTS = 0x110000


class SentencePieceWords:
    """Encodes distinct words of a Unigram tokenizer; see the module."""

    def __init__(self, definition: Mapping[str, Any], encode_others: EncodeTexts) -> None:
        """Builds SentencePiece's model.

        Args:
            definition: The content of a `tokenizer.json` for which `serves` holds.
            encode_others: The tokenizer itself, for the words that are left to it.
        """
        model = definition["model"]
        scores = dict(model["vocab"])
        self._processor = sentencepiece.SentencePieceProcessor(
            model_proto=_model_proto(model["vocab"], model["unk_id"])
        )
        self._encode_others = encode_others
        self._begins_word = np.array([piece.startswith(SPACE_MARK) for piece in scores])
        self._is_known = np.zeros(_NUM_CODE_POINTS, bool)
        self._is_known[[ord(piece) for piece in scores if len(piece) == 1]] = True
        self._is_known[ord(SPACE_MARK)] = False
        largest = _LARGEST_EXACT * _step(scores) - abs(min(scores.values()))
        self._most_chars = int(largest / _worst_character(scores)) - _GROUP_CHARS

    @staticmethod
    def serves(definition: Mapping[str, Any]) -> bool:
        """Whether the tokenizer's own ids are certain to come out, its words being independent."""
        model, cut = definition["model"], definition["pre_tokenizer"]
        if (
            (model["type"], cut["type"]) != ("Unigram", "Metaspace")
            or cut["replacement"] != SPACE_MARK
            or model.get("byte_fallback")
            or model["unk_id"] is None
        ):
            return False
        scores = dict(model["vocab"])
        special = {token["content"] for token in definition["added_tokens"]}
        special.add(model["vocab"][model["unk_id"]][0])
        special |= {piece for piece in scores if piece.startswith(HIDDEN)}
        ordinary, worst = scores.keys() - special, _worst_character(scores)
        return (
            len(scores) == len(model["vocab"])
            and SPACE_MARK in scores
            and {character for piece in ordinary for character in piece} <= scores.keys()
            and max(scores.values()) <= 0
            and _step(scores) >= _SMALLEST_STEP
            # A special token's text is spelled with ordinary pieces: both must find that better.
            and all(scores[piece] < -len(piece) * worst for piece in special & scores.keys())
        )

    def __call__(self, words: pa.StringArray) -> Encoded:
        """The ids of each word, given with or without the space before it."""
        bare = pc.invert(pc.starts_with(words, " "))
        with_space = pc.binary_join_element_wise(arrow.text(" "), words, arrow.text(""))
        spaced = pc.if_else(bare, with_space, words)
        num_chars = arrow.numbers(pc.utf8_length(spaced)).astype(np.int64)
        is_ours = (self._num_strange(spaced, num_chars) == 1) & (num_chars > 1)
        is_ours &= num_chars <= self._most_chars
        ours = spaced.filter(arrow.booleans(is_ours))
        ids, lengths, is_found = self._encode_groups(ours, num_chars[is_ours])
        is_ours[is_ours] = is_found
        return _interleave(
            is_ours, (ids, lengths), self._encode_others(words.filter(arrow.booleans(~is_ours)))
        )

    def _num_strange(self, words: pa.StringArray, num_chars: np.ndarray) -> np.ndarray:
        """How many characters of each word are no pieces, the space before it among them."""
        if not len(words):
            return np.empty(0, np.int64)
        text = _content(words).decode("utf-8").encode("utf-32-le")
        is_strange = ~self._is_known[np.frombuffer(text, np.uint32)]
        return np.add.reduceat(is_strange, np.cumsum(num_chars) - num_chars, dtype=np.int64)

    def _encode_groups(
        self, words: pa.StringArray, num_chars: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ids and lengths of the words that are found in the result, and which these are."""
        if not len(words):
            return np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, bool)
        group_of_word = (np.cumsum(num_chars) - num_chars) // _GROUP_CHARS
        firsts = np.flatnonzero(np.diff(group_of_word, prepend=-1))
        encoded = self._processor.encode(_joined(words, firsts), return_type="numpy", num_threads=1)
        sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
        ids = np.concatenate(encoded)
        begins = self._begins_word[ids]
        num_begun = np.add.reduceat(begins, np.cumsum(sizes) - sizes, dtype=np.int64)
        words_in_group = np.diff(firsts, append=len(words))
        is_whole = num_begun == words_in_group
        kept = np.repeat(is_whole, sizes)
        ids, begins = ids[kept], begins[kept]
        lengths = np.diff(np.flatnonzero(begins), append=len(ids))
        return ids, lengths, np.repeat(is_whole, words_in_group)


def _interleave(is_first: np.ndarray, first: Encoded, second: Encoded) -> Encoded:
    """Two encodings as one: each text's is the next of `first`, or of `second`, as told."""
    lengths = np.empty(len(is_first), np.int64)
    lengths[is_first], lengths[~is_first] = first[1], second[1]
    from_first = np.repeat(is_first, lengths)
    ids = np.empty(len(from_first), np.int32)
    ids[from_first], ids[~from_first] = first[0], second[0]
    return ids, lengths


def _joined(words: pa.StringArray, firsts: np.ndarray) -> list[str]:
    """The words as texts of several, from each of `firsts` to before the next."""
    offsets = np.frombuffer(words.buffers()[1], np.int32)[words.offset :][: len(words) + 1]
    bounds = offsets[np.append(firsts, len(words))]
    joined = pa.StringArray.from_buffers(len(firsts), pa.py_buffer(bounds), words.buffers()[2])
    return joined.to_pylist()


def _content(words: pa.StringArray) -> bytes:
    offsets = np.frombuffer(words.buffers()[1], np.int32)[words.offset :][: len(words) + 1]
    return words.buffers()[2][offsets[0] : offsets[-1]].to_pybytes()


def _worst_character(scores: Mapping[str, float]) -> float:
    """What a text costs at most for each of its characters, if all are pieces."""
    return -min((score for piece, score in scores.items() if len(piece) == 1), default=-1.0)


def _step(scores: Mapping[str, float]) -> float:
    """The largest power of two that all scores are multiples of; 0 if it is too small to use."""
    values = np.array(list(scores.values()))
    step = 1.0
    while step >= _SMALLEST_STEP:
        if (values % step == 0).all():
            return step
        step /= 2
    return 0.0


def _model_proto(vocab: Sequence[tuple[str, float]], unknown_id: int) -> bytes:
    """SentencePiece's model file: the message ModelProto of its sentencepiece_model.proto.

    Written here, because the package's own message class demands a newer protobuf than
    TensorFlow allows.
    """
    ordinary, unknown = _integer(3, 1), _integer(3, 2)
    pieces = b"".join(
        _message(1, _message(1, piece.encode()) + _float(2, score) + kind)
        for (piece, score), kind in zip(
            vocab,
            (unknown if i == unknown_id else ordinary for i in range(len(vocab))),
            strict=True,
        )
    )
    # model_type UNIGRAM; unk_id; no bos, eos, pad
    none = (1 << 64) - 1
    trainer = _integer(3, 1) + _integer(40, unknown_id)
    trainer += b"".join(_integer(field, none) for field in (41, 42, 43))
    trainer += _message(45, vocab[unknown_id][0].encode())
    # no character is changed; a space before the text, none doubled, written as ▁
    normalizer = _message(1, b"identity") + _integer(3, 1) + _integer(4, 1) + _integer(5, 1)
    return pieces + _message(2, trainer) + _message(3, normalizer)


_varint = functools.lru_cache(maxsize=1024)(varint)  # nearly all are tags and short lengths


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _float(field: int, value: float) -> bytes:
    return _varint(field << 3 | 5) + struct.pack("<f", value)
