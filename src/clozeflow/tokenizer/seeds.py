"""The pieces that Unigram training starts from: frequent substrings of the counted words.

SentencePiece 0.2.3 finds its own in a text in which every word stands as often as it occurs, so its
memory grows with the corpus (2 GB at 100 MB). Here the words stand once, with their counts
as weights. A substring grows by a character at a time, and only where it is frequent enough to
be among the seeds yet. Four seeds for each piece asked for give fewer tokens than its 8 to 40.

Legend: W words, N characters of all of them, M positions still of interest, G substrings of one
length.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Self

import numpy as np
import pyarrow as pa

MAX_PIECE_CHARS = 16
"""The longest piece, with its space mark: SentencePiece's default."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Text:
    """All words, one after the other. Narrow types: N is nine million at 100 MB of English."""

    text: str
    characters_N: np.ndarray
    """int32: each character as an index into the alphabet."""
    words_N: np.ndarray
    """int32: the number of the character's word."""
    ends_W: np.ndarray
    """int32: where each word ends."""
    counts_W: np.ndarray
    """float64, whole numbers: how often each word occurs."""
    alphabet_size: int

    @classmethod
    def of(cls, words: Sequence[str], counts: Sequence[int]) -> Self:
        text = "".join(words)
        codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        alphabet = np.flatnonzero(np.bincount(codes))
        index = np.zeros(alphabet[-1] + 1, np.int32)
        index[alphabet] = np.arange(len(alphabet))
        lengths = np.fromiter(map(len, words), np.int32, len(words))
        return cls(
            text=text,
            characters_N=index[codes],
            words_N=np.repeat(np.arange(len(words), dtype=np.int32), lengths),
            ends_W=np.cumsum(lengths, dtype=np.int32),
            counts_W=np.asarray(counts, np.float64),
            alphabet_size=len(alphabet),
        )


@dataclasses.dataclass(kw_only=True)
class _Substrings:
    """The distinct substrings of one length, by their number."""

    length: int
    starts_G: np.ndarray
    """int32: where each occurs first."""
    frequencies_G: np.ndarray
    """int64: how often it occurs in the corpus."""
    parents_G: np.ndarray
    """int64: the number of the substring that is one character shorter."""
    branches_G: np.ndarray
    """bool: whether it goes on in more than one way. If not, the longer one is the better seed."""

    def scores(self) -> np.ndarray:
        """int64 [G]: characters of the corpus that the substring covers."""
        return self.frequencies_G * self.length


def seed_pieces(
    words: Sequence[str], counts: Sequence[int], *, num_seeds: int
) -> list[tuple[str, int]]:
    """The substrings of 2 to 16 characters that cover most of the corpus, with their frequency.

    Args:
        words: Distinct words, non-empty.
        counts: How often each occurs.
        num_seeds: The most to return.
    """
    text = _Text.of(words, counts)
    positions, names = np.arange(len(text.text), dtype=np.int32), text.characters_N
    found: list[_Substrings] = []
    least_score = 0
    for length in range(2, MAX_PIECE_CHARS + 1):
        positions, names, longer = _extend(text, positions, names, length)
        if found:
            _mark_parents(found[-1], longer)
        least_score = max(least_score, _score_of_rank([*found, longer], num_seeds))
        # What cannot be a seed at any length that it may still grow to is not followed.
        follow = longer.frequencies_G * MAX_PIECE_CHARS >= least_score
        follow &= longer.frequencies_G >= 2
        goes_on = follow[names]
        numbers = np.cumsum(follow, dtype=np.int32) - 1
        positions, names = positions[goes_on], numbers[names[goes_on]]
        found.append(_select(longer, follow))
    return _best(text, found, num_seeds)


def _extend(
    text: _Text, positions_M: np.ndarray, names_M: np.ndarray, length: int
) -> tuple[np.ndarray, np.ndarray, _Substrings]:
    """The positions with room for one more character, the longer substrings there, and these."""
    has_room = positions_M + (length - 1) < text.ends_W[text.words_N[positions_M]]
    positions_M, names_M = positions_M[has_room], names_M[has_room]
    keys = names_M.astype(np.int64)
    keys *= text.alphabet_size
    keys += text.characters_N[positions_M + (length - 1)]
    encoded = pa.array(keys).dictionary_encode()
    numbers_M = encoded.indices.to_numpy()
    num = len(encoded.dictionary)
    starts = np.empty(num, np.int32)
    starts[numbers_M[::-1]] = positions_M[::-1]  # the last write, the first position, stays
    substrings = _Substrings(
        length=length,
        starts_G=starts,
        frequencies_G=np.bincount(
            numbers_M, weights=text.counts_W[text.words_N[positions_M]], minlength=num
        ).astype(np.int64),
        parents_G=encoded.dictionary.to_numpy() // text.alphabet_size,
        branches_G=np.ones(num, np.bool_),
    )
    return positions_M, numbers_M, substrings


def _mark_parents(shorter: _Substrings, longer: _Substrings) -> None:
    same = longer.frequencies_G == shorter.frequencies_G[longer.parents_G]
    shorter.branches_G[longer.parents_G[same]] = False


def _select(substrings: _Substrings, keep_G: np.ndarray) -> _Substrings:
    arrays = {
        field.name: getattr(substrings, field.name)[keep_G]
        for field in dataclasses.fields(substrings)
        if field.name.endswith("_G")
    }
    return dataclasses.replace(substrings, **arrays)


def _score_of_rank(found: Sequence[_Substrings], rank: int) -> int:
    """The score that a substring must reach to be among the best `rank`, by what is known yet.

    Whether the longest ones branch is not known yet. Where one does not, a longer one with a higher
    score will take its place.
    """
    scores = [s.scores()[s.branches_G] for s in found]
    flat = np.concatenate([np.empty(0, np.int64), *scores])
    return int(np.partition(flat, -rank)[-rank]) if len(flat) > rank else 0


def _best(text: _Text, found: Sequence[_Substrings], num_seeds: int) -> list[tuple[str, int]]:
    chosen = [_select(s, s.branches_G) for s in found]
    starts = np.concatenate([s.starts_G for s in chosen])
    lengths = np.concatenate([np.full(len(s.starts_G), s.length) for s in chosen])
    frequencies = np.concatenate([s.frequencies_G for s in chosen])
    order = np.argsort(-frequencies * lengths, kind="stable")[:num_seeds]
    return [
        (text.text[start : start + length], frequency)
        for start, length, frequency in zip(
            starts[order].tolist(),
            lengths[order].tolist(),
            frequencies[order].tolist(),
            strict=True,
        )
    ]
