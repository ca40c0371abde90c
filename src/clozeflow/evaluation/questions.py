"""Which tokens a model is asked for: frozen questions, the same for every model.

Which tokens of a row are asked for is a function of `(seed, row)` and of the row's own tokens.
What a model is shown in their place is as in training (see `config.Shown`), so that the figures
are what training logs; a token left in place gives its answer away, which is why the figures
are also given by what was shown.

Shapes: B rows, T tokens in a row, P places for questions in a row, N questions in the batch.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from clozeflow.evaluation.config import Shown
from clozeflow.training.masking import MaskingRule, mask_rows

Int32s = npt.NDArray[np.int32]


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


def cloze_rule(
    tokenizer: Any, *, masking_rate: float, seq_len: int, shown: Shown = Shown.TRAINING
) -> MaskingRule:
    """The rule of evaluation: that of training, or the mask token in every asked token's place."""
    rule = MaskingRule.for_tokenizer(tokenizer, rate=masking_rate, seq_len=seq_len)
    if shown is Shown.TRAINING:
        return rule
    return dataclasses.replace(rule, mask_share=1.0, random_share=0.0)


def make_questions(batch: Mapping[str, Any], *, rule: MaskingRule, seed: int) -> Questions:
    """The questions of a batch of `eval_batches`; a row has at least one if it has any word.

    Args:
        batch: `input_ids` and `attention_mask` int32 [B, T], `row` int64 [B].
        rule: See `cloze_rule`.
        seed: Chooses the tokens that are asked for.
    """
    masked = mask_rows(
        batch["input_ids"], batch["attention_mask"], batch["row"], seed=seed, rule=rule
    )
    return Questions(
        input_ids=np.asarray(masked["input_ids"]),
        attention_mask=np.asarray(batch["attention_mask"]),
        row_numbers=np.asarray(batch["row"]),
        masked_positions=np.asarray(masked["masked_positions"]),
        masked_labels=np.asarray(masked["masked_labels"]),
        is_asked=np.asarray(masked["masked_weights"]) > 0,
    )
