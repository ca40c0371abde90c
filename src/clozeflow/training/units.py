"""Units of masking: the tokens of a row that are masked together or not at all.

A way to divide rows is a function from a row's tokens to the number of the unit that each
belongs to. Which units are masked is decided afterwards, alike for all of them.

Shape legend: B rows, T tokens in a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from clozeflow.training.noise import Draw, Noise

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

DivideRows = Callable[[Any, Noise], Any]
"""(`input_ids` int32 [B, T], noise) -> int32 [B, T]: numbers that rise along the row, the same
for the tokens of a unit."""

WORD_MARKS = ("▁", "Ġ")
"""What the first piece of a word begins with: SentencePiece's mark, and byte-level BPE's."""
CONTINUATION_MARK = "##"
"""What WordPiece's other pieces begin with."""

_MAX_SPAN = 10
"""SpanBERT's limit (Joshi et al., arXiv 1907.10529, section 3.1)."""


def single_tokens(input_ids: Any, noise: Noise) -> Any:
    """Every token for itself."""
    del noise
    return tf.broadcast_to(tf.range(tf.shape(input_ids)[1])[None, :], tf.shape(input_ids))


def whole_words(word_start_ids: Sequence[int], *, vocab_size: int) -> DivideRows:
    """A word's pieces together.

    Args:
        word_start_ids: The ids that begin a word; see `word_starts`.
        vocab_size: Number of ids.
    """
    is_start = [0.0] * vocab_size
    for start in word_start_ids:
        is_start[start] = 1.0

    def divide(input_ids: Any, noise: Noise) -> Any:
        del noise
        starts_BT = tf.cast(tf.gather(tf.constant(is_start), input_ids), tf.int32)
        return tf.cumsum(starts_BT, axis=1)

    return divide


def geometric_spans(mean_length: float) -> DivideRows:
    """Spans of geometrically distributed lengths, cut at 10, with a mean near `mean_length`."""
    log_of_going_on = math.log(1 - 1 / mean_length) if mean_length > 1 else -math.inf

    def divide(input_ids: Any, noise: Noise) -> Any:
        uniform_BT = 1 - noise.uniform(Draw.LENGTH, input_ids.shape[1])  # in (0, 1]
        lengths_BT = 1 + tf.cast(tf.floor(tf.math.log(uniform_BT) / log_of_going_on), tf.int32)
        return _units_of_lengths(tf.minimum(lengths_BT, _MAX_SPAN))

    return divide


def ngrams(max_length: int) -> DivideRows:
    """Up to `max_length` tokens, a length n with probability in proportion to 1/n.

    As ALBERT does (Lan et al., arXiv 1909.11942, section 4.1).
    """
    weights = [1 / n for n in range(1, max_length + 1)]
    limits = [sum(weights[:n]) / sum(weights) for n in range(1, max_length)]

    def divide(input_ids: Any, noise: Noise) -> Any:
        uniform_BT = noise.uniform(Draw.LENGTH, input_ids.shape[1])
        is_longer = uniform_BT[:, :, None] >= tf.constant(limits, tf.float32)
        return _units_of_lengths(1 + tf.reduce_sum(tf.cast(is_longer, tf.int32), axis=-1))

    return divide


def _units_of_lengths(lengths_BT: Any) -> Any:
    """Unit numbers of units with these lengths, one after the other from the row's start."""
    ends_BT = tf.cumsum(lengths_BT, axis=1)
    positions_BT = tf.broadcast_to(tf.range(tf.shape(ends_BT)[1])[None, :], tf.shape(ends_BT))
    return tf.searchsorted(ends_BT, positions_BT, side="right")


def word_starts(tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """The ids that begin a word, by the marks of their pieces; special tokens are all of them."""
    vocabulary = tokenizer.get_vocab()
    special = set(tokenizer.all_special_ids)
    if any(piece.startswith(CONTINUATION_MARK) for piece in vocabulary):
        starts = {i for piece, i in vocabulary.items() if not piece.startswith(CONTINUATION_MARK)}
    else:
        starts = {i for piece, i in vocabulary.items() if piece.startswith(WORD_MARKS)}
    return tuple(sorted(starts | special))
