"""Windows of texts as arrays: similar lengths together, shorter rows padded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from clozeflow.evaluation.windows import Window

Int32s = npt.NDArray[np.int32]

MAX_TOKENS_PER_CALL = 8192
"""Padding included: enough to keep a processor busy, few enough for its caches."""
MAX_LOGITS_PER_CALL = 1 << 24
"""64 MiB of float32."""


def batches_of(windows: Sequence[Window], vocab_size: int) -> Iterator[list[Window]]:
    """Windows of similar size together, so that little of a batch is padding.

    Args:
        windows: In any order.
        vocab_size: The length of the logits of each mask.
    """
    batch: list[Window] = []
    width = 0
    for window in sorted(windows, key=lambda window: (len(window.masks), len(window.token_ids))):
        width = max(width, len(window.token_ids))
        num_rows = len(batch) + 1
        num_logits = num_rows * len(window.masks) * vocab_size
        if batch and (num_rows * width > MAX_TOKENS_PER_CALL or num_logits > MAX_LOGITS_PER_CALL):
            yield batch
            batch, width = [], len(window.token_ids)
        batch.append(window)
    if batch:
        yield batch


def padded(batch: Sequence[Window], pad_token_id: int) -> tuple[Int32s, Int32s]:
    """`input_ids` and `attention_mask`, [B, T] with T the longest window's length."""
    width = max(len(window.token_ids) for window in batch)
    input_ids = np.full((len(batch), width), pad_token_id, np.int32)
    attention_mask = np.zeros((len(batch), width), np.int32)
    for row, window in enumerate(batch):
        input_ids[row, : len(window.token_ids)] = window.token_ids
        attention_mask[row, : len(window.token_ids)] = 1
    return input_ids, attention_mask


def masked_positions(batch: Sequence[Window]) -> Int32s:
    """[B, P] with P the most masks of a window; unused places repeat a row's first mask."""
    positions = np.zeros((len(batch), max(len(window.masks) for window in batch)), np.int32)
    for row, window in enumerate(batch):
        positions[row] = window.positions[0]
        positions[row, : len(window.positions)] = window.positions
    return positions
