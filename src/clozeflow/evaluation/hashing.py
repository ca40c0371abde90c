"""Random numbers that are functions of what they are for, in NumPy: no generator keeps state."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

UInt64s = npt.NDArray[np.uint64]

_GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def hash_keys(seed: int, keys: npt.NDArray[np.int64]) -> UInt64s:
    """A 64-bit hash of `(seed, key)` for each key."""
    return _mix(_mix(np.array([seed % 2**64], np.uint64)) ^ _mix(keys.astype(np.uint64)))


def uniform(keys: UInt64s, length: int) -> npt.NDArray[np.float64]:
    """Float64 [B, length] in [0, 1): the first outputs of a generator started at each key [B]."""
    steps = np.arange(1, length + 1, dtype=np.uint64) * _GOLDEN_GAMMA
    bits = _mix(keys[:, None] + steps[None, :]) >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53


def _mix(value: UInt64s) -> UInt64s:
    """SplitMix64's output function (Steele, Lea and Flood, 2014); overflow is part of it."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
