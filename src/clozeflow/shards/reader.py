"""Shards as `tf.data`: training batches that start at any step, and evaluation batches in order.

The examples of a step are a pure function of (shards, seed, step), the same for any number of
hosts: see `shards.order`. A window of examples is read, checked and decoded at a time, in bulk
and in a thread of its own, while the one before it is used.

Shapes: B examples in this process's part of a batch, T tokens in each.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from clozeflow.artifacts import Artifact
from clozeflow.errors import UserError
from clozeflow.shards.fetch import ShardCache
from clozeflow.shards.order import Order, Window
from clozeflow.shards.source import Examples, Source


def train_batches(
    shards: Artifact,
    *,
    split: str = "train",
    global_batch_size: int,
    seed: int,
    start_step: int = 0,
    process_index: int = 0,
    num_processes: int = 1,
    cache: ShardCache | None = None,
) -> tf.data.Dataset:
    """Endless batches for training, from any step on.

    Every epoch has each example once; batches go on over the epochs' ends. What is before
    `start_step` is not read.

    Args:
        shards: The artifact.
        split: Which examples.
        global_batch_size: Examples in a step over all processes.
        seed: Chooses the order.
        start_step: The first batch's step.
        process_index: Which contiguous part of each global batch is this process's.
        num_processes: In how many equal parts global batches are divided.
        cache: Where copies of remote shards are kept; by default in the user's cache folder.

    Returns:
        Dicts of `step` (int64 scalar), `input_ids` and `attention_mask` (int32 [B, T]), with B =
        `global_batch_size / num_processes`.

    Raises:
        UserError: The split has no examples, the batch cannot be divided, or a file is not as the
            manifest says (sizes at once, the content when it is read, before it is used).
    """
    batch_size = _part_size(global_batch_size, process_index, num_processes)
    source = Source.open(shards, split, cache)
    first = process_index * batch_size

    def positions(start: int, stop: int) -> np.ndarray:
        place = np.arange(start, stop) % global_batch_size - first
        return np.flatnonzero((place >= 0) & (place < batch_size))

    def batches() -> Iterator[dict[str, Any]]:
        order = Order(sizes=source.sizes, seq_len=source.seq_len, seed=seed)
        examples = _ordered_examples(source, order, start_step * global_batch_size, positions)
        for offset, (input_ids, attention_mask) in enumerate(_rebatch(examples, batch_size)):
            yield {
                "step": np.int64(start_step + offset),
                "input_ids": input_ids,
                "attention_mask": attention_mask.astype(np.int32),
            }

    rows = tf.TensorSpec([batch_size, source.seq_len], tf.int32)
    signature = {"step": tf.TensorSpec([], tf.int64), "input_ids": rows, "attention_mask": rows}
    return _dataset(batches, signature)


def eval_batches(
    shards: Artifact, *, split: str, batch_size: int, cache: ShardCache | None = None
) -> tf.data.Dataset:
    """Every example of a split once, in the files' order; the last batch may be smaller.

    Returns:
        Dicts of `input_ids`, `attention_mask` (int32 [B, T]) and `row` (int64 [B]): the index of
        the example in the split.

    Raises:
        UserError: As for `train_batches`.
    """
    source = Source.open(shards, split, cache)

    def batches() -> Iterator[dict[str, Any]]:
        examples = (source.read(index) for index in range(len(source.files)))
        row = 0
        for input_ids, attention_mask in _rebatch(examples, batch_size, keep_rest=True):
            stop = row + len(input_ids)
            yield {
                "input_ids": input_ids,
                "attention_mask": attention_mask.astype(np.int32),
                "row": np.arange(row, stop),
            }
            row = stop

    rows = tf.TensorSpec([None, source.seq_len], tf.int32)
    row_spec = tf.TensorSpec([None], tf.int64)
    return _dataset(batches, {"input_ids": rows, "attention_mask": rows, "row": row_spec})


def original_error(error: tf.errors.OpError) -> UserError | None:
    """The user's error that stopped a dataset of ours, which TensorFlow raises as its own."""
    return next((found for found in _stopped_by if str(found) in str(error.message)), None)


_stopped_by: list[UserError] = []
"""Errors of generators, which TensorFlow passes on as text alone."""


def _part_size(global_batch_size: int, process_index: int, num_processes: int) -> int:
    if not 0 <= process_index < num_processes:
        raise UserError(
            "process_index",
            "is no process of these",
            got=process_index,
            expected=f"0 to {num_processes - 1}",
            fix="Number the processes from 0.",
        )
    if global_batch_size < 1 or global_batch_size % num_processes:
        raise UserError(
            "--global-batch-size",
            "cannot be divided among the processes",
            got=global_batch_size,
            expected=f"a multiple of {num_processes}",
            fix=f"Give --global-batch-size a multiple of {num_processes}.",
        )
    return global_batch_size // num_processes


def _ordered_examples(
    source: Source, order: Order, start: int, choose: Callable[[int, int], np.ndarray]
) -> Iterator[Examples]:
    """The chosen ones of the examples from position `start` on, a window at a time, read ahead."""
    windows = order.windows(start)

    def load(window: Window) -> Examples:
        first = max(start, window.start)
        chosen = choose(first, window.start + len(window.order)) + (first - window.start)
        return source.gather(window.shards, window.order[chosen])

    with concurrent.futures.ThreadPoolExecutor(1, "clozeflow-reader") as pool:
        ahead = pool.submit(load, next(windows))
        while True:
            examples = ahead.result()
            ahead = pool.submit(load, next(windows))
            yield examples


def _rebatch(
    parts: Iterator[Examples], batch_size: int, *, keep_rest: bool = False
) -> Iterator[Examples]:
    """Examples cut anew into batches; the smaller last one only if `keep_rest`."""
    waiting: list[Examples] = []
    num_waiting = 0
    for part in parts:
        start = 0
        while num_waiting + len(part[0]) - start >= batch_size:
            stop = start + batch_size - num_waiting
            yield _join([*waiting, (part[0][start:stop], part[1][start:stop])])
            waiting, num_waiting, start = [], 0, stop
        waiting.append((part[0][start:], part[1][start:]))
        num_waiting += len(part[0]) - start
    if num_waiting and keep_rest:
        yield _join(waiting)


def _join(parts: list[Examples]) -> Examples:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


class _Work:
    """What TensorFlow's threads do in Python, which must be over when the interpreter ends.

    A thread that wanted to go on in Python then would wait for ever, and the iterator's end for it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._num_running, self._is_over = 0, False

    def begins(self) -> bool:
        """Whether work may begin; `ends` must follow it."""
        with self._changed:
            self._num_running += not self._is_over
            return not self._is_over

    def ends(self) -> None:
        """Says that it has ended."""
        with self._changed:
            self._num_running -= 1
            self._changed.notify_all()

    def stop(self) -> None:
        """Waits for what is running, and lets nothing begin any more."""
        with self._changed:
            self._is_over = True
            self._changed.wait_for(lambda: not self._num_running)
        time.sleep(_LEAVING_SECONDS)


_LEAVING_SECONDS = 0.05
"""A thread's way from our code back to TensorFlow's."""
_work = _Work()
atexit.register(_work.stop)


def _dataset(
    batches: Callable[[], Iterator[dict[str, Any]]], signature: dict[str, tf.TensorSpec]
) -> tf.data.Dataset:
    def noted() -> Iterator[dict[str, Any]]:
        content = batches()
        while _work.begins():
            try:
                batch = next(content)
            except StopIteration:
                return
            except UserError as error:
                _stopped_by.append(error)
                raise
            finally:
                _work.ends()
            yield batch

    options = tf.data.Options()
    # The batches are divided among processes already: TensorFlow must not do it again.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    dataset = tf.data.Dataset.from_generator(noted, output_signature=signature)
    return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)
