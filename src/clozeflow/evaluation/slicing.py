"""Slices: the questions in groups, so that one sees where a model is good and where not."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from clozeflow.evaluation.guesses import Guesses
from clozeflow.evaluation.pieces import Pieces
from clozeflow.evaluation.questions import Questions
from clozeflow.evaluation.sources import SourceGroups

Groups = npt.NDArray[np.int64]

FREQUENCY_BOUNDS = (10.0, 100.0, 1000.0, 10000.0)
"""Occurrences in a million training tokens."""
NUM_PARTS = 4
BY_SOURCE = "source"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Slicing:
    """A way to divide questions into groups."""

    name: str
    groups: tuple[str, ...]
    group_of: Callable[[Questions], Groups]
    """[N]: the index in `groups` of each question."""


def slicings(
    pieces: Pieces,
    guesses: Guesses,
    sources: SourceGroups | None,
    *,
    seq_len: int,
    mask_token_id: int,
) -> tuple[Slicing, ...]:
    """Every way that the report divides by; by source where the shards tell it."""
    frequency_group = _frequency_groups(guesses)
    by_source = (
        [Slicing(name=BY_SOURCE, groups=sources.names, group_of=sources.group_of)]
        if sources
        else []
    )
    return (
        *by_source,
        Slicing(
            name="shown in the place of the token",
            groups=("the mask", "another token", "the token itself"),
            group_of=lambda questions: _shown_groups(questions, mask_token_id),
        ),
        Slicing(
            name="token frequency (in a million training tokens)",
            groups=_frequency_names(),
            group_of=lambda questions: frequency_group[questions.labels],
        ),
        Slicing(
            name="word start or inside",
            groups=("begins a word", "inside a word"),
            group_of=lambda questions: 1 - pieces.starts_word[questions.labels].astype(np.int64),
        ),
        Slicing(
            name="bytes in the token",
            groups=("1", "2 to 3", "4 to 6", "7 or more"),
            group_of=lambda questions: np.digitize(_letters(pieces)[questions.labels], (2, 4, 7)),
        ),
        Slicing(
            name="position in the example",
            groups=_part_names(seq_len, first=0),
            group_of=lambda questions: questions.positions.astype(np.int64) * NUM_PARTS // seq_len,
        ),
        Slicing(
            name="length of the example (tokens)",
            groups=_part_names(seq_len, first=1),
            group_of=lambda questions: _length_groups(questions, seq_len),
        ),
    )


def _shown_groups(questions: Questions, mask_token_id: int) -> Groups:
    is_mask, is_label = questions.shown == mask_token_id, questions.shown == questions.labels
    return np.where(is_mask, 0, np.where(is_label, 2, 1)).astype(np.int64)


def _letters(pieces: Pieces) -> Groups:
    """[V]: bytes of each piece without the space before it."""
    return pieces.num_bytes - pieces.starts_word


def _frequency_groups(guesses: Guesses) -> Groups:
    """[V]: 0 for tokens that were never counted, then one more at each bound."""
    per_million = guesses.counts / max(1, guesses.counts.sum()) * 1e6
    return np.where(guesses.counts == 0, 0, 1 + np.digitize(per_million, FREQUENCY_BOUNDS))


def _frequency_names() -> tuple[str, ...]:
    bounds = [f"{bound:,.0f}" for bound in FREQUENCY_BOUNDS]
    between = [f"{low} to {high}" for low, high in itertools.pairwise(bounds)]
    return ("never seen", f"below {bounds[0]}", *between, f"{bounds[-1]} or more")


def _part_names(seq_len: int, *, first: int) -> tuple[str, ...]:
    """The parts of `seq_len` numbers that are counted from `first`."""
    starts = [-(-part * seq_len // NUM_PARTS) + first for part in range(NUM_PARTS + 1)]
    return tuple(f"{low} to {high - 1}" for low, high in itertools.pairwise(starts))


def _length_groups(questions: Questions, seq_len: int) -> Groups:
    lengths = questions.attention_mask.sum(axis=1)
    return ((lengths - 1) * NUM_PARTS // seq_len)[questions.batch_index].astype(np.int64)


def group_sums(
    groups: Groups, values: npt.NDArray[np.float64], num_groups: int
) -> npt.NDArray[np.float64]:
    """Float64 [num_groups, F]: the sum of the rows of `values` [N, F] in each group."""
    sums = np.zeros((num_groups, values.shape[1]))
    for column in range(values.shape[1]):
        sums[:, column] = np.bincount(groups, weights=values[:, column], minlength=num_groups)
    return sums
