"""Masks: which tokens of an example the model must restore, and what it sees in their place.

Every draw is a pure function of (seed, index of the example, position): no generator keeps
state, so a resumed run, another number of hosts and another batch size see the same masks.

Shape legend: B rows, T tokens in a row, P masked positions in a row.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from clozeflow.training import units
from clozeflow.training.noise import Draw, Noise

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_ROOM_FOR_UNITS = 4
"""More masked positions than the rate asks for, so that a last unit fits in whole (or is left out,
if it is longer still: one masked token in a hundred)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskingRule:
    """How examples are masked: 80 % `<mask>`, 10 % another token, 10 % left as they are."""

    rate: float
    """The share of a row's ordinary tokens that must be restored."""
    seq_len: int
    """Tokens in a row: T."""
    vocab_size: int
    """Ids that replacements are drawn from: the tokenizer's, without the model's spare ones."""
    mask_token_id: int
    special_token_ids: tuple[int, ...]
    """Never masked and never drawn."""
    mask_share: float = 0.8
    random_share: float = 0.1
    divide: units.DivideRows = units.single_tokens
    """What is masked together."""
    final_rate: float | None = None
    """The rate at the last step; between the first and the last it changes linearly."""
    num_train_steps: int = 1
    """Over which the rate changes."""

    @property
    def num_masked_positions(self) -> int:
        """P: room for every masked position of a row of ordinary tokens between `<s>`, `</s>`."""
        highest = max(self.rate, self.final_rate or 0.0)
        room = 0 if self.divide is units.single_tokens else _ROOM_FOR_UNITS
        return min(self.seq_len, max(1, math.ceil(highest * (self.seq_len - 2)) + room))

    @property
    def ordinary_ids(self) -> list[int]:
        """The ids that may be drawn."""
        special = set(self.special_token_ids)
        return [i for i in range(self.vocab_size) if i not in special]

    def rate_at(self, step: Any) -> Any:
        """The rate of a training step: float32 scalar."""
        if self.final_rate is None:
            return tf.constant(self.rate)
        done = tf.cast(step, tf.float32) / max(1, self.num_train_steps - 1)
        return self.rate + (self.final_rate - self.rate) * tf.minimum(done, 1.0)

    @classmethod
    def for_tokenizer(
        cls, tokenizer: PreTrainedTokenizerBase, *, rate: float, seq_len: int, **more: Any
    ) -> MaskingRule:
        """The rule with a tokenizer's special tokens and number of ids."""
        return cls(
            rate=rate,
            seq_len=seq_len,
            vocab_size=len(tokenizer),
            mask_token_id=int(tokenizer.mask_token_id),
            special_token_ids=tuple(sorted({int(i) for i in tokenizer.all_special_ids})),
            **more,
        )


def mask_batch(
    input_ids: Any,
    attention_mask: Any,
    *,
    seed: int,
    step: Any,
    rule: MaskingRule,
    global_batch_size: int,
    first_row: int = 0,
) -> dict[str, Any]:
    """Masks a training batch, or one process's consecutive rows of it.

    Args:
        input_ids: int32 [B, T].
        attention_mask: int32 [B, T].
        seed: Of the run.
        step: int64 scalar; with the row in the global batch it decides every draw.
        rule: How to mask.
        global_batch_size: Rows of a step over all processes.
        first_row: Which row of the global batch the first row here is.

    Returns:
        See `mask_rows`.
    """
    num_rows = tf.shape(input_ids, out_type=tf.int64)[0]
    first = tf.cast(step, tf.int64) * global_batch_size + first_row
    rows = first + tf.range(num_rows, dtype=tf.int64)
    return mask_rows(input_ids, attention_mask, rows, seed=seed, rule=rule, rate=rule.rate_at(step))


def mask_rows(
    input_ids: Any,
    attention_mask: Any,
    rows: Any,
    *,
    seed: int,
    rule: MaskingRule,
    rate: Any = None,
) -> dict[str, Any]:
    """Masks examples; each one's mask depends on its tokens, `seed` and its index alone.

    Args:
        input_ids: int32 [B, T].
        attention_mask: int32 [B, T]; 0 where there is padding.
        rows: int64 [B], the index of each example.
        seed: Another seed gives other masks.
        rule: How to mask.
        rate: In place of the rule's: float32 scalar, at most the rule's highest.

    Returns:
        `input_ids` int32 [B, T] with the replacements; `attention_mask` as given;
        `masked_positions` int32 [B, P], ascending; `masked_labels` int32 [B, P], the ids that
        stood there; `masked_weights` float32 [B, P], 1 where there is a question and 0 in the
        unused rest, which repeats the row's first question. A row has at least one question
        unless all its tokens are special.
    """
    noise = Noise(seed=seed, rows=rows)
    maskable_BT = _is_ordinary(input_ids, attention_mask, rule)
    wanted_B = _num_wanted(maskable_BT, noise, rule.rate if rate is None else rate)
    chosen_BP, is_used_BP = _choose(input_ids, maskable_BT, wanted_B, noise, rule)
    positions_BP = _ascending(chosen_BP, is_used_BP, rule)
    labels_BP = tf.gather(input_ids, positions_BP, batch_dims=1)
    shown_BP = tf.where(is_used_BP, _replacements(labels_BP, noise, rule), labels_BP)
    # The unused rest must write what the first question writes, as it writes the same place.
    shown_BP = tf.where(is_used_BP, shown_BP, shown_BP[:, :1])
    return {
        "input_ids": _put(input_ids, positions_BP, shown_BP),
        "attention_mask": attention_mask,
        "masked_positions": positions_BP,
        "masked_labels": labels_BP,
        "masked_weights": tf.cast(is_used_BP, tf.float32),
    }


def _is_ordinary(input_ids: Any, attention_mask: Any, rule: MaskingRule) -> Any:
    special = tf.constant(rule.special_token_ids, tf.int32)
    is_special_BT = tf.reduce_any(input_ids[:, :, None] == special, axis=-1)
    return tf.logical_and(attention_mask > 0, tf.logical_not(is_special_BT))


def _num_wanted(maskable_BT: Any, noise: Noise, rate: Any) -> Any:
    """int32 [B]: the rate's share of each row, rounded at random so that the mean is exact."""
    num_maskable_B = tf.reduce_sum(tf.cast(maskable_BT, tf.int32), axis=1)
    exact_B = rate * tf.cast(num_maskable_B, tf.float32)
    rounded_B = tf.cast(tf.floor(exact_B + noise.uniform(Draw.COUNT, 1)[:, 0]), tf.int32)
    return tf.minimum(tf.maximum(rounded_B, 1), num_maskable_B)


def _choose(
    input_ids: Any, maskable_BT: Any, wanted_B: Any, noise: Noise, rule: MaskingRule
) -> tuple[Any, Any]:
    """Chosen positions int32 [B, P], in order of choice, and which of them count, bool [B, P].

    Units are taken in a random order, each as a whole; the one that goes beyond what is wanted
    is taken with a probability that makes the mean exact. The first is taken always: it is cut
    if it is longer than there is room.
    """
    room = rule.num_masked_positions
    units_BT = _units_between_specials(input_ids, maskable_BT, noise, rule)
    # The number of a unit picks the draw that decides its place in the order.
    draws_BN = noise.uniform(Draw.POSITION, 2 * rule.seq_len + 1)
    priority_BT = tf.gather(draws_BN, tf.maximum(units_BT, 0), batch_dims=1)
    order_BT = tf.argsort(tf.where(maskable_BT, priority_BT, 2.0), axis=1, stable=True)
    starts_BT, ends_BT = _runs(tf.gather(units_BT, order_BT, batch_dims=1))
    share_B = noise.uniform(Draw.OVERSHOOT, 1)
    reach_BT = tf.cast(starts_BT, tf.float32) + share_B * tf.cast(ends_BT - starts_BT, tf.float32)
    is_wanted_BT = (reach_BT < tf.cast(wanted_B[:, None], tf.float32)) & (ends_BT <= room)
    is_ordinary_BT = tf.gather(maskable_BT, order_BT, batch_dims=1)
    is_used_BT = is_ordinary_BT & (is_wanted_BT | (starts_BT == 0))
    return order_BT[:, :room], is_used_BT[:, :room]


def _units_between_specials(
    input_ids: Any, maskable_BT: Any, noise: Noise, rule: MaskingRule
) -> Any:
    """int32 [B, T]: rising unit numbers below 2 T + 1, with -1 for tokens that are not masked."""
    units_BT = rule.divide(input_ids, noise)
    num_specials_BT = tf.cumsum(tf.cast(tf.logical_not(maskable_BT), tf.int32), axis=1)
    return tf.where(maskable_BT, units_BT + num_specials_BT, -1)


def _runs(values_BT: Any) -> tuple[Any, Any]:
    """Where the run of equal values that each place is in starts, and ends (exclusive)."""
    length = values_BT.shape[1]
    is_first_BT = tf.concat(
        [tf.ones_like(values_BT[:, :1], tf.bool), values_BT[:, 1:] != values_BT[:, :-1]], axis=1
    )
    run_BT = tf.cumsum(tf.cast(is_first_BT, tf.int32), axis=1) - 1
    firsts_BT = tf.sort(tf.where(is_first_BT, tf.range(length)[None, :], length), axis=1)
    bounds_BN = tf.pad(firsts_BT, [[0, 0], [0, 1]], constant_values=length)
    starts_BT = tf.gather(bounds_BN, run_BT, batch_dims=1)
    return starts_BT, tf.gather(bounds_BN, run_BT + 1, batch_dims=1)


def _ascending(chosen_BP: Any, is_used_BP: Any, rule: MaskingRule) -> Any:
    """The used positions in ascending order, then the first of them again and again."""
    sorted_BP = tf.sort(tf.where(is_used_BP, chosen_BP, rule.seq_len), axis=1)
    first_B1 = tf.where(is_used_BP[:, :1], sorted_BP[:, :1], 0)
    return tf.where(is_used_BP, sorted_BP, first_B1)


def _replacements(labels_BP: Any, noise: Noise, rule: MaskingRule) -> Any:
    """What the model sees at each masked position: int32 [B, P]."""
    num_positions, ordinary_ids = rule.num_masked_positions, rule.ordinary_ids
    action_BP = noise.uniform(Draw.ACTION, num_positions)
    drawn_BP = noise.integers(Draw.REPLACEMENT, num_positions, limit=len(ordinary_ids))
    random_BP = tf.gather(tf.constant(ordinary_ids, tf.int32), drawn_BP)
    kept_or_random_BP = tf.where(
        action_BP < rule.mask_share + rule.random_share, random_BP, labels_BP
    )
    return tf.where(action_BP < rule.mask_share, rule.mask_token_id, kept_or_random_BP)


def _put(input_ids_BT: Any, positions_BP: Any, values_BP: Any) -> Any:
    """The ids with `values` at `positions`; where a position comes twice, so does its value."""
    rows_BP = tf.broadcast_to(tf.range(tf.shape(positions_BP)[0])[:, None], tf.shape(positions_BP))
    indices = tf.stack([rows_BP, positions_BP], axis=-1)
    return tf.tensor_scatter_nd_update(input_ids_BT, indices, values_BP)
