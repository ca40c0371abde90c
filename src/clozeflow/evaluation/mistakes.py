"""The worst mistakes: wrong answers that the model was surest of."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from clozeflow.evaluation.pieces import Pieces
from clozeflow.evaluation.questions import Questions
from clozeflow.evaluation.scoring import Answers

NUM_MISTAKES = 12
CONTEXT_TOKENS = 16
"""Shown on each side of the mask."""


class Mistakes:
    """The few worst of all that were made so far."""

    def __init__(self, pieces: Pieces, mask_token_id: int) -> None:
        self._pieces, self._mask_token_id = pieces, mask_token_id
        self._worst: list[tuple[float, int, int, dict[str, Any]]] = []

    def add(self, questions: Questions, answers: Answers) -> None:
        """Looks for worse ones in one batch."""
        sureness = np.where(answers.ranks > 0, answers.best_probabilities, -1.0)
        for n in np.argsort(-sureness, kind="stable")[:NUM_MISTAKES].tolist():
            if sureness[n] >= 0:
                self._offer(questions, answers, n)

    def _offer(self, questions: Questions, answers: Answers, n: int) -> None:
        row = int(questions.row_numbers[questions.batch_index[n]])
        position = int(questions.positions[n])
        # Rounded, so that batches of other sizes order the same mistakes alike.
        sureness = round(float(answers.best_probabilities[n]), 6)
        key = (sureness, -row, -position)
        if len(self._worst) == NUM_MISTAKES and key < self._worst[0][:3]:
            return
        entry = (*key, self._describe(questions, answers, n))
        push = heapq.heappush if len(self._worst) < NUM_MISTAKES else heapq.heapreplace
        push(self._worst, entry)

    def _describe(self, questions: Questions, answers: Answers, n: int) -> dict[str, Any]:
        tokens = questions.input_ids[questions.batch_index[n]].tolist()
        place = int(questions.positions[n])
        before = tokens[max(0, place - CONTEXT_TOKENS) : place]
        after = tokens[place + 1 : place + 1 + CONTEXT_TOKENS]
        return {
            "before": self._shown(before),
            "after": self._shown(after),
            "shown": self._shown([tokens[place]]).strip(),
            "true_token": self._pieces.word(int(questions.labels[n])),
            "true_probability": round(float(np.exp(answers.log_probabilities[n])), 6),
            "answer": self._pieces.word(int(answers.best_tokens[n])),
            "probability": round(float(answers.best_probabilities[n]), 6),
        }

    def _shown(self, tokens: list[int]) -> str:
        """Context, with the other masks in it as lines."""
        surfaces, mask = self._pieces.surfaces, self._mask_token_id
        joined = b"".join(b" ___" if token == mask else surfaces[token] for token in tokens)
        return joined.decode("utf-8", errors="replace")

    @property
    def worst(self) -> list[dict[str, Any]]:
        """The surest first."""
        return [entry[3] for entry in sorted(self._worst, key=lambda e: e[:3], reverse=True)]
