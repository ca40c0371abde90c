"""The two guesses that every model is held against: they know how often tokens are, and no context.

Both are counted on the train split, which is all that a model may have learned from.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import numpy.typing as npt

from clozeflow.artifacts import Artifact
from clozeflow.shards.source import Source

MAX_COUNTED_TOKENS = 8_000_000
"""Enough to know the share of the most frequent token to 0.01 points; seconds of reading."""
MAX_COUNTED_FILES = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class Guesses:
    """How often each token is, and what follows from it alone."""

    counts: npt.NDArray[np.int64]
    """[V]: occurrences among the counted tokens; special tokens have none."""
    split: str
    """The split that was counted."""
    num_candidates: int
    """Tokens that can be the answer to a question."""

    @property
    def most_frequent_token(self) -> int:
        """The id of the most frequent token; the lowest of equals."""
        return int(np.argmax(self.counts))

    @functools.cached_property
    def log_probabilities(self) -> npt.NDArray[np.float64]:
        """[V]: the unigram distribution, with one added to each count so that none is zero."""
        total = self.counts.sum() + self.num_candidates
        return np.log((self.counts + 1) / total)


def count_guesses(
    shards: Artifact, *, evaluated_split: str, is_candidate: npt.NDArray[np.bool_]
) -> Guesses:
    """Counts the train split's tokens, or a sample of it where it is large.

    The sample is the same every time: the first rows of up to 16 files, spread evenly over the
    split. Shards without a train split are counted on the evaluated one, which makes the guesses
    better than they could honestly be.

    Args:
        shards: The rows.
        evaluated_split: What is counted where there is no train split.
        is_candidate: bool [V], the ids that a question may ask for.
    """
    split = "train" if "train" in shards.manifest.splits else evaluated_split
    source = Source.open(shards, split)
    chosen = _evenly_spaced(len(source.files), MAX_COUNTED_FILES)
    rows = MAX_COUNTED_TOKENS // len(chosen) // source.seq_len
    counts = np.zeros(len(is_candidate), dtype=np.int64)
    for index in chosen:
        input_ids, _ = source.read(index, np.arange(min(rows, source.sizes[index])))
        counts += np.bincount(input_ids.ravel(), minlength=len(is_candidate))
    counts[~is_candidate] = 0
    return Guesses(counts=counts, split=split, num_candidates=int(is_candidate.sum()))


def _evenly_spaced(length: int, most: int) -> list[int]:
    count = min(length, most)
    return [i * length // count for i in range(count)]
