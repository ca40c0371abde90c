"""Masks: which tokens of an example the model must restore, and what it sees in their place.

Every draw is a pure function of (seed, index of the example, position): no generator keeps
state, so a resumed run, another number of hosts and another batch size see the same masks.

Shape legend: B rows, T tokens in a row, P masked positions in a row.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Draw(enum.IntEnum):
    """What a random number is for: each has its own stream."""

    POSITION = 0
    ACTION = 1
    REPLACEMENT = 2
    COUNT = 3


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

    @property
    def num_masked_positions(self) -> int:
        """P: room for every masked position of a row of ordinary tokens between `<s>`, `</s>`."""
        return max(1, math.ceil(self.rate * (self.seq_len - 2)))

    @classmethod
    def for_tokenizer(
        cls, tokenizer: PreTrainedTokenizerBase, *, rate: float, seq_len: int
    ) -> MaskingRule:
        """The rule with a tokenizer's special tokens and number of ids."""
        return cls(
            rate=rate,
            seq_len=seq_len,
            vocab_size=len(tokenizer),
            mask_token_id=int(tokenizer.mask_token_id),
            special_token_ids=tuple(sorted({int(i) for i in tokenizer.all_special_ids})),
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
    return mask_rows(input_ids, attention_mask, rows, seed=seed, rule=rule)


def mask_rows(
    input_ids: Any, attention_mask: Any, rows: Any, *, seed: int, rule: MaskingRule
) -> dict[str, Any]:
    """Masks examples; each one's mask depends on its tokens, `seed` and its index alone.

    Args:
        input_ids: int32 [B, T].
        attention_mask: int32 [B, T]; 0 where there is padding.
        rows: int64 [B], the index of each example.
        seed: Another seed gives other masks.
        rule: How to mask.

    Returns:
        `input_ids` int32 [B, T] with the replacements; `attention_mask` as given;
        `masked_positions` int32 [B, P], ascending; `masked_labels` int32 [B, P], the ids that
        stood there; `masked_weights` float32 [B, P], 1 where there is a question and 0 in the
        unused rest, which repeats the row's first question. A row has at least one question
        unless all its tokens are special.
    """
    noise = _Noise(seed=seed, rows=rows)
    maskable_BT = _is_ordinary(input_ids, attention_mask, rule)
    num_masked_B = _num_masked(maskable_BT, noise, rule)
    positions_BP, is_used_BP = _choose_positions(maskable_BT, num_masked_B, noise, rule)
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


class _Noise:
    """Uniform numbers in [0, 1) that are a function of (seed, row, draw, column)."""

    def __init__(self, *, seed: int, rows: Any) -> None:
        self._key_B = _mix(_mix(_u64(seed)) + tf.cast(rows, tf.uint64))

    def uniform(self, draw: Draw, num_columns: int) -> Any:
        """float32 [B, num_columns]."""
        columns = tf.range(num_columns, dtype=tf.int64) * len(Draw) + int(draw)
        counters = tf.cast(columns + 1, tf.uint64) * _u64(_GOLDEN_GAMMA)
        bits = tf.bitwise.right_shift(_mix(self._key_B[:, None] + counters[None, :]), _u64(40))
        return tf.cast(bits, tf.float32) * 2.0**-24


# The output function of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
# generators, 2014). TensorFlow's stateless generators take one key a call; rows need one each.
_GOLDEN_GAMMA = 0x9E3779B97F4A7C15


def _mix(value: Any) -> Any:
    value = tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, _u64(30)))
    value *= _u64(0xBF58476D1CE4E5B9)
    value = tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, _u64(27)))
    value *= _u64(0x94D049BB133111EB)
    return tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, _u64(31)))


def _u64(value: int) -> Any:
    return tf.constant(value % 2**64, tf.uint64)


def _is_ordinary(input_ids: Any, attention_mask: Any, rule: MaskingRule) -> Any:
    special = tf.constant(rule.special_token_ids, tf.int32)
    is_special_BT = tf.reduce_any(input_ids[:, :, None] == special, axis=-1)
    return tf.logical_and(attention_mask > 0, tf.logical_not(is_special_BT))


def _num_masked(maskable_BT: Any, noise: _Noise, rule: MaskingRule) -> Any:
    """int32 [B]: the rate's share of each row, rounded at random so that the mean is exact."""
    num_maskable_B = tf.reduce_sum(tf.cast(maskable_BT, tf.int32), axis=1)
    exact_B = rule.rate * tf.cast(num_maskable_B, tf.float32)
    rounded_B = tf.cast(tf.floor(exact_B + noise.uniform(Draw.COUNT, 1)[:, 0]), tf.int32)
    room_B = tf.minimum(num_maskable_B, rule.num_masked_positions)
    return tf.minimum(tf.maximum(rounded_B, 1), room_B)


def _choose_positions(
    maskable_BT: Any, num_masked_B: Any, noise: _Noise, rule: MaskingRule
) -> tuple[Any, Any]:
    """Positions int32 [B, P], the used ones first and ascending, and which are used, bool."""
    noise_BT = noise.uniform(Draw.POSITION, rule.seq_len)
    order_BT = tf.where(maskable_BT, noise_BT, -1.0)
    chosen_BP = tf.math.top_k(order_BT, k=rule.num_masked_positions).indices
    is_used_BP = tf.range(rule.num_masked_positions)[None, :] < num_masked_B[:, None]
    sorted_BP = tf.sort(tf.where(is_used_BP, chosen_BP, rule.seq_len), axis=1)
    first_B1 = tf.where(is_used_BP[:, :1], sorted_BP[:, :1], 0)
    return tf.where(is_used_BP, sorted_BP, first_B1), is_used_BP


def _replacements(labels_BP: Any, noise: _Noise, rule: MaskingRule) -> Any:
    """What the model sees at each masked position: int32 [B, P]."""
    action_BP = noise.uniform(Draw.ACTION, rule.num_masked_positions)
    special = set(rule.special_token_ids)
    ordinary_ids = tf.constant([i for i in range(rule.vocab_size) if i not in special], tf.int32)
    num_ordinary = rule.vocab_size - len([i for i in special if i < rule.vocab_size])
    drawn_BP = noise.uniform(Draw.REPLACEMENT, rule.num_masked_positions) * num_ordinary
    # float32 may round the highest draw up to one beyond the last.
    drawn_BP = tf.minimum(tf.cast(drawn_BP, tf.int32), num_ordinary - 1)
    random_BP = tf.gather(ordinary_ids, drawn_BP)
    kept_or_random_BP = tf.where(
        action_BP < rule.mask_share + rule.random_share, random_BP, labels_BP
    )
    return tf.where(action_BP < rule.mask_share, rule.mask_token_id, kept_or_random_BP)


def _put(input_ids_BT: Any, positions_BP: Any, values_BP: Any) -> Any:
    """The ids with `values` at `positions`; where a position comes twice, so does its value."""
    rows_BP = tf.broadcast_to(tf.range(tf.shape(positions_BP)[0])[:, None], tf.shape(positions_BP))
    indices = tf.stack([rows_BP, positions_BP], axis=-1)
    return tf.tensor_scatter_nd_update(input_ids_BT, indices, values_BP)
