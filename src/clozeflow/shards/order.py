"""The order of examples: a pure function of (seed, epoch), known from the manifest alone.

An epoch is a permutation of all examples, made in two stages so that reading stays local. The
shards are put in a random order and cut into windows of neighbours; the examples of a window
are put in a random order. (Each shard holds a random part of the corpus in random order already:
see `shards.units`.) To go to any step, only the windows that it falls in are read.

Positions count examples from 0 on, over epochs: epoch `e` has those from `e * N` to `(e+1) * N`.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Iterator

import numpy as np

WINDOW_TOKENS = 1 << 23
"""Tokens that a window holds, about: 40 MB in memory. More would mix better and start slower."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Window:
    """Examples that are read together and mixed."""

    start: int
    """The position of its first example."""
    shards: np.ndarray
    """int64: the indices of its shards, in the order in which their rows are counted."""
    order: np.ndarray
    """int64: which of the shards' rows, counted end to end, stands at each position."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Order:
    """The endless sequence of examples of a split."""

    sizes: tuple[int, ...]
    """Examples in each shard."""
    seq_len: int
    seed: int

    @property
    def num_examples(self) -> int:
        """Examples in an epoch."""
        return sum(self.sizes)

    def windows(self, position: int) -> Iterator[Window]:
        """The windows from the one that holds this position on, without end."""
        epoch, offset = divmod(position, self.num_examples)
        while True:
            shards = permutation(len(self.sizes), self.seed, epoch)
            start = epoch * self.num_examples
            for index, group in enumerate(self._groups(shards)):
                size = sum(self.sizes[shard] for shard in group)
                if offset < size:
                    order = permutation(size, self.seed, epoch, index)
                    yield Window(start=start, shards=group, order=order)
                offset = max(0, offset - size)
                start += size
            epoch += 1

    def rows(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """The shard and the row in it of each position from `start` to before `stop`."""
        found: list[np.ndarray] = []
        for window in self.windows(start):
            if window.start >= stop:
                break
            rows = window.order[max(0, start - window.start) : stop - window.start]
            sizes = np.array([self.sizes[shard] for shard in window.shards])
            ends = np.cumsum(sizes)
            place = np.searchsorted(ends, rows, side="right")
            found.append(np.stack([window.shards[place], rows - (ends - sizes)[place]]))
        shards, rows = np.concatenate(found, axis=1)
        return shards, rows

    def _groups(self, shards: np.ndarray) -> list[np.ndarray]:
        return np.split(
            shards, range(self._shards_per_window, len(shards), self._shards_per_window)
        )

    @functools.cached_property
    def _shards_per_window(self) -> int:
        return max(1, WINDOW_TOKENS // (max(self.sizes) * self.seq_len))


def permutation(size: int, *key: int | str) -> np.ndarray:
    """A permutation of `range(size)` (int64) that depends on the key alone.

    It sorts Philox's raw output, whose values numpy promises to keep between versions (it does
    not promise those of `Generator.permutation`).
    """
    digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
    bits = np.random.Philox(key=int.from_bytes(digest[:16], "little"))
    return np.argsort(bits.random_raw(size), kind="stable")
