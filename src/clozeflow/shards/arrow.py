"""From numpy's arrays to Arrow's and back, without `pa.array` and `to_numpy`.

Those import pandas where it is installed, which takes each process 0.4 s.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa


def booleans(values: np.ndarray) -> pa.BooleanArray:
    """A bool array, for `filter`."""
    bits = np.packbits(values, bitorder="little")
    return pa.BooleanArray.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])


def indices(values: np.ndarray) -> pa.Int64Array:
    """An int64 array, for `take`."""
    data = pa.py_buffer(np.ascontiguousarray(values, np.int64))
    return pa.Int64Array.from_buffers(pa.int64(), len(values), [None, data])


def text(value: str) -> pa.StringScalar:
    """A string, for functions of strings."""
    return strings([value])[0]


def strings(values: Sequence[str]) -> pa.StringArray:
    """An array of strings."""
    octets = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, octets)], dtype=np.int32)
    data = pa.py_buffer(b"".join(octets))
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(ends), data)


def int32s(values: np.ndarray) -> pa.Int32Array:
    """An int32 array."""
    data = pa.py_buffer(np.ascontiguousarray(values, np.int32))
    return pa.Int32Array.from_buffers(pa.int32(), len(values), [None, data])


def numbers(values: pa.Int32Array) -> np.ndarray:
    """An int32 array without nulls (a view)."""
    assert values.type == pa.int32() and not values.null_count, values.type
    return np.frombuffer(values.buffers()[1], np.int32)[values.offset :][: len(values)]
