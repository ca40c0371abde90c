"""Which tokens a model is asked for: frozen questions, the same for every model.

Which tokens of a row are asked for, and what stands in their place, is a function of `(seed,
row)`, of the row's own tokens and of the rule here. It shares no code with the masks of training:
those change as training gets better, and figures of different times must stay comparable.

What a model is shown is by default as in training (see `config.Shown`), so that the figures are
what training logs; a token left in place gives its answer away, which is why the figures are
also given by what was shown.

Shapes: B rows, T tokens in a row, P places for questions in a row, N questions in the batch.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from clozeflow.evaluation.config import Shown
from clozeflow.evaluation.hashing import hash_keys, uniform

Int32s = npt.NDArray[np.int32]

MASK_SHARE, OTHER_SHARE = 0.8, 0.1
"""Of the asked tokens: shown as the mask, and as another token; the rest stay. (BERT's shares.)"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Questions:
    """The questions of a batch of rows: the rows with masks in them, and what was there."""

    input_ids: Int32s
    """[B, T]: the tokens, with what is shown in the place of the asked ones."""
    attention_mask: Int32s
    """[B, T]: 0 where there is padding."""
    row_numbers: npt.NDArray[np.int64]
    """[B]: each row's number within its split."""
    masked_positions: Int32s
    """[B, P]"""
    masked_labels: Int32s
    """[B, P]"""
    is_asked: npt.NDArray[np.bool_]
    """[B, P]: false in the places that a row with fewer questions leaves unused."""

    @functools.cached_property
    def labels(self) -> Int32s:
        """[N]: the tokens that were there."""
        return self.masked_labels[self.is_asked]

    @functools.cached_property
    def positions(self) -> Int32s:
        """[N]: which position of its row each question is at."""
        return self.masked_positions[self.is_asked]

    @functools.cached_property
    def shown(self) -> Int32s:
        """[N]: the tokens that stand there instead, or still."""
        return self.input_ids[self.batch_index, self.positions]

    @functools.cached_property
    def batch_index(self) -> npt.NDArray[np.int64]:
        """[N]: which row of the batch each question is in."""
        return np.nonzero(self.is_asked)[0]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Rule:
    """How questions are made from rows."""

    masking_rate: float
    """The share of a row's ordinary tokens that is asked for, rounded to a whole number."""
    shown: Shown
    mask_token_id: int
    is_ordinary: npt.NDArray[np.bool_]
    """[V]: the ids that may be asked for, and shown in place of another: no special ones."""

    def num_places(self, seq_len: int) -> int:
        """P: the most questions that a row can have."""
        return max(1, math.floor(self.masking_rate * seq_len + 0.5))


def make_questions(batch: Mapping[str, Any], *, rule: Rule, seed: int) -> Questions:
    """The questions of a batch of `eval_batches`; a row has at least one if it has any word.

    Args:
        batch: `input_ids` and `attention_mask` int32 [B, T], `row` int64 [B].
        rule: How to ask.
        seed: Chooses the tokens that are asked for.
    """
    input_ids_BT, rows_B = np.asarray(batch["input_ids"]), np.asarray(batch["row"])
    seq_len = input_ids_BT.shape[1]
    num_places = rule.num_places(seq_len)
    draws = uniform(hash_keys(seed, rows_B), seq_len + 2 * num_places)
    order_BT, action_BP, other_BP = np.split(draws, [seq_len, seq_len + num_places], axis=1)
    positions_BP, is_asked_BP = _choose(rule.is_ordinary[input_ids_BT], order_BT, rule)
    labels_BP = np.take_along_axis(input_ids_BT, positions_BP, axis=1)
    shown_BP = np.where(is_asked_BP, _shown(labels_BP, action_BP, other_BP, rule), labels_BP)
    shown_BT = input_ids_BT.copy()
    np.put_along_axis(shown_BT, positions_BP, shown_BP, axis=1)
    return Questions(
        input_ids=shown_BT,
        attention_mask=np.asarray(batch["attention_mask"]),
        row_numbers=rows_B,
        masked_positions=positions_BP,
        masked_labels=labels_BP,
        is_asked=is_asked_BP,
    )


def _choose(
    is_ordinary_BT: npt.NDArray[np.bool_], order_BT: npt.NDArray[np.float64], rule: Rule
) -> tuple[Int32s, npt.NDArray[np.bool_]]:
    """Positions [B, P], the ones with the lowest numbers, and which of them are asked for."""
    num_places = rule.num_places(order_BT.shape[1])
    num_ordinary_B = is_ordinary_BT.sum(axis=1)
    num_asked_B = np.maximum(np.floor(rule.masking_rate * num_ordinary_B + 0.5), 1)
    num_asked_B = np.minimum(num_asked_B, num_ordinary_B)
    order_BT = np.where(is_ordinary_BT, order_BT, 2.0)  # special tokens behind all others
    positions_BP = np.argsort(order_BT, axis=1, kind="stable")[:, :num_places]
    return positions_BP.astype(np.int32), np.arange(num_places) < num_asked_B[:, None]


def _shown(
    labels_BP: Int32s,
    action_BP: npt.NDArray[np.float64],
    other_BP: npt.NDArray[np.float64],
    rule: Rule,
) -> Int32s:
    """What stands in the place of each asked token: [B, P]."""
    if rule.shown is Shown.MASK:
        return np.full_like(labels_BP, rule.mask_token_id)
    ordinary_ids = np.flatnonzero(rule.is_ordinary).astype(np.int32)
    others_BP = ordinary_ids[(other_BP * len(ordinary_ids)).astype(np.int64)]
    kept_or_other_BP = np.where(action_BP < MASK_SHARE + OTHER_SHARE, others_BP, labels_BP)
    return np.where(action_BP < MASK_SHARE, np.int32(rule.mask_token_id), kept_or_other_BP)
