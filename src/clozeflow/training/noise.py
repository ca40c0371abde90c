"""Random numbers that are functions of (seed, row, purpose, column), without a generator's state.

Shape legend: B rows.
"""

from __future__ import annotations

import enum
from typing import Any

import tensorflow as tf


class Draw(enum.IntEnum):
    """What a random number is for: each has its own stream."""

    POSITION = 0
    ACTION = 1
    REPLACEMENT = 2
    COUNT = 3
    LENGTH = 4
    OVERSHOOT = 5


_NUM_STREAMS = 8
"""More than there are draws, so that a new one leaves the others' numbers as they are."""


class Noise:
    """Uniform numbers in [0, 1) for some rows.

    Args:
        seed: Another seed gives other numbers.
        rows: int64 [B], the index of each row.
    """

    def __init__(self, *, seed: int, rows: Any) -> None:
        self._key_B = _mix(_mix(_u64(seed)) + tf.cast(rows, tf.uint64))

    def uniform(self, draw: Draw, num_columns: int) -> Any:
        """float32 [B, num_columns]."""
        columns = tf.range(num_columns, dtype=tf.int64) * _NUM_STREAMS + int(draw)
        counters = tf.cast(columns + 1, tf.uint64) * _u64(_GOLDEN_GAMMA)
        bits = tf.bitwise.right_shift(_mix(self._key_B[:, None] + counters[None, :]), _u64(40))
        return tf.cast(bits, tf.float32) * 2.0**-24

    def integers(self, draw: Draw, num_columns: int, *, limit: int) -> Any:
        """int32 [B, num_columns], from 0 to below `limit`."""
        drawn = tf.cast(self.uniform(draw, num_columns) * limit, tf.int32)
        # float32 may round the highest draw up to the limit.
        return tf.minimum(drawn, limit - 1)


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
