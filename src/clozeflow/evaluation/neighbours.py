"""Nearest neighbours in embedding space: what a model holds to be alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from clozeflow.evaluation.guesses import Guesses
from clozeflow.evaluation.models import MaskedLanguageModel

NUM_WORDS, NUM_NEIGHBOURS = 12, 5
MIN_LETTERS = 4
"""Shorter words are mostly grammar."""
MIN_COUNT = 5
"""A token that was hardly ever seen still is where it was put at the start of training."""


def neighbours(model: MaskedLanguageModel, guesses: Guesses) -> list[dict[str, Any]]:
    """The most frequent words, each with the tokens whose embeddings have the highest cosine."""
    pieces, counts = model.pieces, guesses.counts
    seen = np.flatnonzero(counts >= MIN_COUNT)
    by_frequency = seen[np.argsort(-counts[seen], kind="stable")].tolist()
    words = [i for i in by_frequency if pieces.starts_word[i] and _is_long_word(pieces.word(i))]
    if not words:
        return []
    units = _unit_vectors(model)[seen]
    place = {token: index for index, token in enumerate(seen.tolist())}
    found = []
    for token in words[:NUM_WORDS]:
        cosines = units @ units[place[token]]
        cosines[place[token]] = -2.0
        best = np.argsort(-cosines, kind="stable")[:NUM_NEIGHBOURS]
        found.append(
            {
                "word": pieces.word(token),
                "neighbours": [
                    {"token": pieces.word(int(seen[i])), "cosine": round(float(cosines[i]), 4)}
                    for i in best.tolist()
                    if cosines[i] > -2.0
                ],
            }
        )
    return found


def _is_long_word(word: str) -> bool:
    return len(word) >= MIN_LETTERS and word.isalpha()


def _unit_vectors(model: MaskedLanguageModel) -> Any:
    """Float32 [V, H]: the input embeddings, each of length 1."""
    vectors = np.asarray(model.network.get_input_embeddings().weight, np.float32)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
