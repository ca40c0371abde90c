"""How well a tokenizer suits a text: length, unknowns, what decoding restores."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from clozeflow.tokenizer import normalizer

QUALITY_BYTES = 4_000_000
"""Text that the figures are made from, at most: two seconds of encoding."""

_BATCH_DOCUMENTS = 256
_MOST_FAILURES = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Failure:
    """A text that decoding does not restore, though every token of it is known."""

    text: str
    decoded: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Quality:
    """Figures of one tokenizer on one text."""

    num_documents: int
    num_bytes: int
    """Of the normalised text in UTF-8."""
    num_words: int
    num_tokens: int
    num_unknown: int
    """Tokens that are `<unk>`."""
    num_pieces_used: int
    """Pieces of the vocabulary that occur, special tokens not counted."""
    num_ordinary_pieces: int
    """Pieces of the vocabulary, special tokens not counted."""
    num_round_trip_failures: int
    failures: tuple[Failure, ...]
    """The first of them."""

    @property
    def figures(self) -> dict[str, float]:
        """The rates: what is compared between tokenizers."""
        return {
            "tokens_per_byte": _ratio(self.num_tokens, self.num_bytes),
            "tokens_per_word": _ratio(self.num_tokens, self.num_words),
            "unknown_rate": _ratio(self.num_unknown, self.num_tokens),
            "vocabulary_used": _ratio(self.num_pieces_used, self.num_ordinary_pieces),
        }

    def to_dict(self) -> dict[str, Any]:
        """Counts and rates as JSON-serialisable values."""
        return {**dataclasses.asdict(self), **self.figures}


def measure(
    tokenizer: Tokenizer, texts: Iterable[str], *, unk: int, special: Iterable[int]
) -> Quality:
    """Encodes and decodes texts.

    Args:
        tokenizer: As `loading.load` gives it.
        texts: Documents.
        unk: The unknown token's id.
        special: The ids of all special tokens.
    """
    used = np.zeros(tokenizer.get_vocab_size(), np.int64)
    totals = dict.fromkeys(("num_documents", "num_bytes", "num_words"), 0)
    num_failures, failures = 0, []
    for text, ids in _encoded(tokenizer, texts):
        clean = normalizer.normalize(text)
        totals["num_documents"] += 1
        totals["num_bytes"] += len(clean.encode())
        totals["num_words"] += len(clean.split(" "))
        np.add.at(used, ids, 1)
        if unk in ids:
            continue
        decoded = tokenizer.decode(ids, skip_special_tokens=False)
        if decoded != clean:
            num_failures += 1
            failures += [Failure(text=clean, decoded=decoded)] * (num_failures <= _MOST_FAILURES)
    ordinary = np.delete(used, list(special))
    return Quality(
        **totals,
        num_tokens=int(used.sum()),
        num_unknown=int(used[unk]),
        num_pieces_used=int(np.count_nonzero(ordinary)),
        num_ordinary_pieces=len(ordinary),
        num_round_trip_failures=num_failures,
        failures=tuple(failures),
    )


def _encoded(tokenizer: Tokenizer, texts: Iterable[str]) -> Iterator[tuple[str, list[int]]]:
    texts = iter(texts)
    while batch := list(itertools.islice(texts, _BATCH_DOCUMENTS)):
        encodings = tokenizer.encode_batch_fast(batch, add_special_tokens=False)
        yield from zip(batch, (encoding.ids for encoding in encodings), strict=True)


def _ratio(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0
