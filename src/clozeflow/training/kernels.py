"""The two costly functions of a step that want other code with XLA than without it.

TensorFlow's own kernels are the fastest where each operation runs by itself. XLA has none of
them: it makes one loop of simple operations in a row, and such rows are written here.

Shape legend: N tokens (any number of axes), V vocabulary.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

RandomBits = Callable[[int, Any, int, Sequence[int], Any], Any]
"""(seed, step, number of the call in the step, shape, index of the first row) -> uint32 of that
shape: the rows from that one on of an endless stream for (seed, step, call)."""

TokenLosses = Callable[[Any, Any], tuple[Any, Any]]
"""(logits [N, V], labels int32 [N]) -> cross-entropy in nats float32 [N], best ids int32 [N]."""

_NUMBERS_PER_COUNT = 4
"""Philox gives four 32-bit numbers for each value of its counter."""


def philox_bits(
    seed: int, step: Any, call: int, shape: Sequence[int], first_row: Any
) -> Any:  # see RandomBits
    """By TensorFlow's generator, whose counter is set to the first row."""
    num_rows, *rest = shape
    folded = tf.random.experimental.stateless_fold_in([seed, 0], step)
    folded = tf.random.experimental.stateless_fold_in(folded, call)
    generator = tf.raw_ops.StatelessRandomGetKeyCounter(seed=folded)
    counts_per_row = math.ceil(math.prod(rest) / _NUMBERS_PER_COUNT)
    first_count = tf.cast(first_row, tf.uint64) * tf.constant(counts_per_row, tf.uint64)
    bits = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[num_rows, counts_per_row * _NUMBERS_PER_COUNT],
        key=generator.key,
        counter=generator.counter + tf.stack([first_count, tf.zeros_like(first_count)]),
        alg=tf.random.Algorithm.PHILOX.value,
        dtype=tf.uint32,
    )
    return tf.reshape(bits[:, : math.prod(rest)], shape)


def hashed_bits(seed: int, step: Any, call: int, shape: Sequence[int], first_row: Any) -> Any:
    """By a hash of the place: a few operations of 32 bits, that XLA makes part of their user.

    As Philox in the compiled step, the bits would be written to memory and read again.
    """
    num_rows, *rest = shape
    rows = tf.cast(first_row, tf.uint32) + tf.cast(tf.range(num_rows), tf.uint32)
    key = _mix(_xor(_mix(_u32(seed)), tf.cast(step, tf.uint32)))
    key = _mix(_xor(key, _u32(call)))
    rows = tf.reshape(_mix(_xor(key, _mix(rows))), [num_rows, *(1 for _ in rest)])
    # Each row has its own stride and its own start: no two rows share a stretch. The row comes
    # in at every axis: a whole table of places, known beforehand, would be made a constant.
    stride, places = tf.bitwise.bitwise_or(rows, _u32(1)), _mix(rows)
    for axis, size in enumerate(rest):
        inner = rest[axis + 1 :]
        along = tf.cast(tf.range(size), tf.uint32) * _u32(math.prod(inner))
        places += tf.reshape(along, [size, *(1 for _ in inner)]) * stride
    return _mix(places)


def library_losses(logits_NV: Any, labels_N: Any) -> tuple[Any, Any]:  # see TokenLosses
    """By TensorFlow's kernels."""
    logits_NV = tf.cast(logits_NV, tf.float32)
    losses_N = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels_N, logits=logits_NV)
    return losses_N, tf.argmax(logits_NV, axis=-1, output_type=tf.int32)


def fusable_losses(logits_NV: Any, labels_N: Any) -> tuple[Any, Any]:
    """In two passes over the logits and one for the gradient, where TensorFlow's take five."""
    ids_V = tf.range(logits_NV.shape[-1])
    is_label_NV = labels_N[..., None] == ids_V

    @tf.custom_gradient
    def compute(logits_NV: Any) -> Any:
        scores_NV = tf.cast(logits_NV, tf.float32)
        highest_N1 = tf.reduce_max(scores_NV, axis=-1, keepdims=True)
        total_N = tf.reduce_sum(tf.exp(scores_NV - highest_N1), axis=-1)
        of_label_N = tf.reduce_sum(tf.where(is_label_NV, scores_NV, 0.0), axis=-1)
        is_best_NV = scores_NV == highest_N1
        best_N = tf.reduce_min(tf.where(is_best_NV, ids_V, ids_V.shape[0]), axis=-1)
        log_total_N = tf.math.log(total_N) + highest_N1[..., 0]

        def gradient(upstream_N: Any, _: Any) -> Any:
            shares_NV = tf.exp(scores_NV - log_total_N[..., None])
            change_NV = tf.where(is_label_NV, shares_NV - 1, shares_NV) * upstream_N[..., None]
            return tf.cast(change_NV, logits_NV.dtype)

        return (log_total_N - of_label_N, best_N), gradient

    return compute(logits_NV)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kernels:
    """How the costly functions of a step are computed."""

    random_bits: RandomBits
    token_losses: TokenLosses


LIBRARY = Kernels(random_bits=philox_bits, token_losses=library_losses)
"""Where each operation runs by itself: CPU and GPU."""
FUSABLE = Kernels(random_bits=hashed_bits, token_losses=fusable_losses)
"""Where XLA compiles the step: a TPU, or with `Compiler.XLA`. Its dropout is another, as good."""


def _mix(value: Any) -> Any:
    """A bijection of 32 bits (C. Wellons, "Prospecting for hash functions": lowbias32)."""
    value = _xor(value, tf.bitwise.right_shift(value, _u32(16)))
    value *= _u32(0x7FEB352D)
    value = _xor(value, tf.bitwise.right_shift(value, _u32(15)))
    value *= _u32(0x846CA68B)
    return _xor(value, tf.bitwise.right_shift(value, _u32(16)))


_xor = tf.bitwise.bitwise_xor


def _u32(value: int) -> Any:
    return tf.constant(value % 2**32, tf.uint32)
