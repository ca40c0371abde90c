"""Fill-mask: texts with a mask in them, answered by any masked language model."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clozeflow.errors import UserError
from clozeflow.evaluation.batching import batches_of, masked_positions, padded
from clozeflow.evaluation.masks import around_mask, fill, spell_masks
from clozeflow.evaluation.models import MaskedLanguageModel, open_model
from clozeflow.evaluation.windows import Window, cut_windows

Int32s = npt.NDArray[np.int32]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer to one mask."""

    mask: int
    """Which mask of the text, from 0."""
    token: str
    """The answer for people: the piece's text, without the space before it."""
    token_id: int
    probability: float
    """Among the whole vocabulary."""
    text: str
    """The text with this answer in the place of the mask; other masks stay."""
    seen: tuple[int, int]
    """The part of the text, in characters, that the model saw: all of it unless it is too long."""


class FillMask:
    """An opened model that answers texts."""

    def __init__(self, model: str | MaskedLanguageModel) -> None:
        self.model = open_model(model) if isinstance(model, str) else model

    def __call__(
        self, texts: Sequence[str], *, top_k: int = 5, targets: Sequence[str] = ()
    ) -> list[list[Answer]]:
        """Answers every mask of every text, mask by mask, the likeliest answer first.

        Texts of similar length are answered together. A text that is longer than the model is
        answered from a window around each of its masks: `Answer.seen` says which.

        Args:
            texts: Each with one or more `<mask>` or `[MASK]`.
            top_k: Answers to each mask.
            targets: Words to choose from; none for the whole vocabulary.

        Raises:
            UserError: A text has no mask, there are fewer than `top_k` pieces, or a target is no
                single piece of the vocabulary.
        """
        candidates = self._candidates(top_k, targets)
        mask_token = self.model.tokenizer.mask_token
        own = [spell_masks(text, mask_token, where=f"text {i}") for i, text in enumerate(texts, 1)]
        answers: list[list[Answer]] = [[] for _ in texts]
        windows = list(cut_windows(self.model, own))
        for window, ids, probabilities in self._answer(windows, candidates, top_k):
            text = own[window.text_index]
            for mask, *best in zip(window.masks, ids, probabilities, strict=True):
                answers[window.text_index] += self._answers(text, window, mask, *best)
        return [sorted(found, key=lambda answer: answer.mask) for found in answers]

    def check(self, *, top_k: int, targets: Sequence[str]) -> None:
        """Refuses what no text could be asked with.

        Raises:
            UserError: There are fewer than `top_k` pieces, or a target is no single piece.
        """
        self._candidates(top_k, targets)

    def _candidates(self, top_k: int, targets: Sequence[str]) -> Int32s:
        """The ids that may be answers."""
        if targets:
            ids = [target_id(self.model, target) for target in targets]
            return np.array(list(dict.fromkeys(ids)), np.int32)
        known = np.flatnonzero(self.model.pieces.is_known).astype(np.int32)
        if not 1 <= top_k <= len(known):
            raise UserError(
                "--top-k",
                "is not possible with this vocabulary",
                got=top_k,
                expected=f"1 to {len(known)}",
                fix="Ask for fewer answers.",
            )
        return known

    def _answer(
        self, windows: list[Window], candidates: Int32s, top_k: int
    ) -> Iterator[tuple[Window, Int32s, npt.NDArray[np.float32]]]:
        """Each window with the ids and the probabilities of its masks' answers, [masks, k] each."""
        best = _best_function(candidates, min(top_k, len(candidates)))
        for batch in batches_of(windows, self.model.vocab_size):
            inputs = padded(batch, self.model.pad_token_id)
            logits = self.model.logits_at(*inputs, masked_positions(batch))
            places, probabilities = (tensor.numpy() for tensor in best(logits))
            for row, window in enumerate(batch):
                used = slice(len(window.masks))
                yield window, candidates[places[row, used]], probabilities[row, used]

    def _answers(
        self,
        text: str,
        window: Window,
        mask: int,
        ids: Int32s,
        probabilities: npt.NDArray[np.float32],
    ) -> list[Answer]:
        before, after = around_mask(text, self.model.tokenizer.mask_token, mask)
        pieces = self.model.pieces
        return [
            Answer(
                mask=mask,
                token=pieces.word(token_id),
                token_id=token_id,
                probability=probability,
                text=fill(before, pieces.surface_text(token_id), after),
                seen=window.seen,
            )
            for token_id, probability in zip(ids.tolist(), probabilities.tolist(), strict=True)
        ]


def target_id(model: MaskedLanguageModel, target: str) -> int:
    """The piece that stands for a word: at a word's beginning if there is one, else inside.

    Raises:
        UserError: The word is not one piece.
    """
    found = _ids_by_surface(model)
    for surface in (f" {target}", target):
        if surface in found:
            return found[surface]
    raise UserError(
        "--targets",
        "is no single piece of this model's vocabulary",
        got=repr(target),
        expected="a word that one mask can stand for",
        fix=f"Its pieces are {' '.join(model.tokenizer.tokenize(target))}: choose another word.",
    )


@functools.lru_cache(maxsize=4)
def _ids_by_surface(model: MaskedLanguageModel) -> dict[str, int]:
    pieces = model.pieces
    ids = np.flatnonzero(pieces.is_known)[::-1].tolist()  # of equals the lowest id stays
    return {pieces.surface_text(i): i for i in ids}


def _best_function(candidates: Int32s, top_k: int) -> Callable[[Any], Any]:
    """`logits [B, P, V] -> (places among the candidates, probabilities)`, [B, P, k] each."""
    import tensorflow as tf

    def best(logits: Any) -> tuple[Any, Any]:
        probabilities = tf.nn.softmax(logits)
        if len(candidates) < logits.shape[-1]:
            probabilities = tf.gather(probabilities, candidates, axis=-1)
        values, places = tf.math.top_k(probabilities, k=top_k)
        return places, values

    return tf.function(best, reduce_retracing=True, autograph=False)
