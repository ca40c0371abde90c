"""Prompts for the report when the user gives none: texts of the split with one word masked."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from clozeflow.artifacts import Artifact
from clozeflow.evaluation.hashing import hash_keys, uniform
from clozeflow.evaluation.masks import has_mask
from clozeflow.evaluation.models import MaskedLanguageModel
from clozeflow.evaluation.pieces import Pieces
from clozeflow.shards.source import Source

NUM_PROMPTS = 8
MIN_TOKENS, MAX_TOKENS = 8, 40
"""A prompt is long enough to be answered and short enough to be read."""
MIN_LETTERS = 4
"""Shorter words are mostly grammar, which every model learns first."""
_MAX_TRIED_ROWS = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prompt:
    """A text with a mask in it."""

    text: str
    true_word: str = ""
    """What was there, if the prompt was made from a text."""


def prompts_from_shards(
    model: MaskedLanguageModel, shards: Artifact, *, split: str, seed: int
) -> list[Prompt]:
    """A few texts from the beginning of the split's first shard, each with a word masked.

    Only words of one piece are masked, so that one mask can be answered right.
    """
    source = Source.open(shards, split)
    rows = np.arange(min(_MAX_TRIED_ROWS, source.sizes[0]))
    input_ids, _ = source.read(0, rows)
    chance = uniform(hash_keys(seed, rows), 1)[:, 0]
    made = (_make(model, row, float(draw)) for row, draw in zip(input_ids, chance, strict=True))
    return [prompt for prompt, _ in zip(filter(None, made), range(NUM_PROMPTS), strict=False)]


def _make(model: MaskedLanguageModel, row: npt.NDArray[np.int32], draw: float) -> Prompt | None:
    pieces = model.pieces
    for tokens in _texts(row, pieces):
        places = [place for place in range(1, len(tokens)) if _is_word(tokens, place, pieces)]
        if places and not has_mask(pieces.text(tokens)):
            place = places[int(draw * len(places))]
            before, after = pieces.text(tokens[:place]), pieces.text(tokens[place + 1 :])
            return Prompt(
                text=f"{before.strip()} {model.tokenizer.mask_token}{after.rstrip()}",
                true_word=pieces.word(tokens[place]),
            )
    return None


def _texts(row: npt.NDArray[np.int32], pieces: Pieces) -> Iterator[list[int]]:
    """The beginnings of the documents in a row, those that are long enough."""
    borders = np.flatnonzero(pieces.is_special[row])
    for start, stop in zip(borders, [*borders[1:], len(row)], strict=True):
        end = min(int(stop), int(start) + 1 + MAX_TOKENS)
        while start < end < stop and not pieces.starts_word[row[end]]:
            end -= 1
        tokens = row[start + 1 : end].tolist()
        if len(tokens) >= MIN_TOKENS:
            yield tokens


def _is_word(tokens: list[int], place: int, pieces: Pieces) -> bool:
    """Whether the piece at a place is a whole word, and one worth asking for."""
    is_end = place + 1 == len(tokens)
    word = pieces.word(tokens[place])
    return bool(
        pieces.starts_word[tokens[place]]
        and not is_end
        and pieces.text(tokens[place + 1 : place + 2])[:1] in " .,;:!?"
        and len(word) >= MIN_LETTERS
        and word.isalpha()
    )
