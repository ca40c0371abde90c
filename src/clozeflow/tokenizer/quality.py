"""How well a tokenizer suits a text: length, unknowns, what decoding restores."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from clozeflow.tokenizer import normalizer
from clozeflow.tokenizer.special import SpecialIds

QUALITY_BYTES = 4_000_000
"""Text that the figures are made from, at most: two seconds of encoding."""

_BATCH_DOCUMENTS = 256
_MOST_FAILURES = 10
_MOST_UNKNOWN = 30


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
    piece_counts: np.ndarray
    """int64 [V]: how often each piece occurs."""
    num_ordinary_pieces: int
    """Pieces of the vocabulary, special tokens not counted."""
    num_pieces_used: int
    """Ordinary pieces that occur."""
    num_round_trip_failures: int
    """Documents without an unknown token that decoding does not restore."""
    failures: tuple[Failure, ...]
    """The first of them."""
    num_characters: int
    """Different characters."""
    unknown_characters: Mapping[str, int]
    """Those that the tokenizer does not know, and how often they occur, most frequent first."""
    character_coverage: float
    """The share of the text's characters that the tokenizer knows."""

    @property
    def figures(self) -> dict[str, float]:
        """The rates: what is compared between tokenizers."""
        return {
            "tokens_per_byte": _ratio(self.num_tokens, self.num_bytes),
            "tokens_per_word": _ratio(self.num_tokens, self.num_words),
            "unknown_rate": _ratio(self.num_unknown, self.num_tokens),
            "measured_character_coverage": round(self.character_coverage, 6),
            "vocabulary_used": _ratio(self.num_pieces_used, self.num_ordinary_pieces),
            "round_trip_failures": self.num_round_trip_failures,
        }

    def to_dict(self) -> dict[str, Any]:
        """Counts, rates and examples as JSON-serialisable values."""
        value = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in ("piece_counts", "character_coverage")
        }
        return {
            **value,
            **self.figures,
            "failures": [dataclasses.asdict(failure) for failure in self.failures],
            "unknown_characters": dict(
                itertools.islice(self.unknown_characters.items(), _MOST_UNKNOWN)
            ),
        }


class _Tally:
    """What is added up over the documents."""

    def __init__(self, tokenizer: Tokenizer, special: SpecialIds) -> None:
        self.tokenizer, self.special = tokenizer, special
        self.pieces = np.zeros(max(tokenizer.get_vocab().values()) + 1, np.int64)
        self.characters: collections.Counter[str] = collections.Counter()
        self.num_documents = self.num_bytes = self.num_words = self.num_failures = 0
        self.failures: list[Failure] = []

    def add(self, text: str, ids: list[int]) -> None:
        """Takes in one document."""
        clean = normalizer.normalize(text)
        self.characters.update(clean)
        self.num_documents += 1
        self.num_bytes += len(clean.encode())
        self.num_words += clean.count(" ") + bool(clean)
        self.pieces += np.bincount(np.asarray(ids, np.int64), minlength=len(self.pieces))
        if self.special.unk not in ids:
            self._compare(clean, self.tokenizer.decode(ids, skip_special_tokens=False))

    def _compare(self, clean: str, decoded: str) -> None:
        if decoded != clean:
            self.num_failures += 1
            if self.num_failures <= _MOST_FAILURES:
                self.failures.append(Failure(text=clean, decoded=decoded))

    def unknown_characters(self) -> dict[str, int]:
        """The characters that encode to `<unk>`, the most frequent first."""
        by_count = sorted(self.characters.items(), key=lambda item: (-item[1], item[0]))
        found = [(c, n) for c, n in by_count if c != " "]
        encodings = self.tokenizer.encode_batch_fast(
            [character for character, _ in found], add_special_tokens=False
        )
        return {
            character: count
            for (character, count), encoding in zip(found, encodings, strict=True)
            if self.special.unk in encoding.ids
        }


def measure(tokenizer: Tokenizer, texts: Iterable[str], *, special: SpecialIds) -> Quality:
    """Encodes and decodes texts.

    Args:
        tokenizer: As `loading.load` gives it.
        texts: Documents.
        special: The ids of its special tokens.
    """
    tally = _Tally(tokenizer, special)
    for text, ids in _encoded(tokenizer, texts):
        tally.add(text, ids)
    ordinary = np.delete(tally.pieces, list(special.all()))
    unknown = tally.unknown_characters()
    num_characters = tally.characters.total() - tally.characters[" "]
    return Quality(
        num_documents=tally.num_documents,
        num_bytes=tally.num_bytes,
        num_words=tally.num_words,
        num_tokens=int(tally.pieces.sum()),
        num_unknown=int(tally.pieces[special.unk]),
        piece_counts=tally.pieces,
        num_pieces_used=int(np.count_nonzero(ordinary)),
        num_ordinary_pieces=len(ordinary),
        num_round_trip_failures=tally.num_failures,
        failures=tuple(tally.failures),
        num_characters=len(tally.characters.keys() - {" "}),
        unknown_characters=unknown,
        character_coverage=1 - _ratio(sum(unknown.values()), num_characters),
    )


def _encoded(tokenizer: Tokenizer, texts: Iterable[str]) -> Iterator[tuple[str, list[int]]]:
    texts = iter(texts)
    while batch := list(itertools.islice(texts, _BATCH_DOCUMENTS)):
        encodings = tokenizer.encode_batch_fast(batch, add_special_tokens=False)
        yield from zip(batch, (encoding.ids for encoding in encodings), strict=True)


def _ratio(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0
