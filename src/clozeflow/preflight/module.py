"""The exported module, before the TPU's compiler changes it: its hash, its products of matrices.

Needs TensorFlow, which brings the format's classes along.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import math
from collections.abc import Iterator, Mapping
from typing import Any

from tensorflow.compiler.xla import xla_data_pb2
from tensorflow.compiler.xla.service import hlo_pb2

from clozeflow.preflight.program import Group, group_of

LANES = 128
"""Columns of a tile, and the size of a matrix unit: a product's width and its inner size fill
multiples of it."""
_SUBLANES = 8
_BYTES = {xla_data_pb2.BF16: 2, xla_data_pb2.S64: 8, xla_data_pb2.PRED: 1}
"""Of those element types that do not have four."""
_SINGLE = (xla_data_pb2.F32, xla_data_pb2.F64)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Products:
    """The products of matrices of one replica's step."""

    flops: float
    """Two for each multiplication with its addition."""
    flops_by_group: Mapping[str, float]
    padded_flops: float
    """With every size filled up to the matrix unit's tiles: what the unit spends."""
    single_precision: tuple[str, ...]
    """The names of those in float32, which take several passes of the unit."""


def parse(module: bytes) -> Any:
    """The module's message."""
    message = hlo_pb2.HloModuleProto()
    message.ParseFromString(module)
    return message


def fingerprint(module: bytes) -> str:
    """`sha256:…` of what the module computes: names, ids and sources of operations left out."""
    message = parse(module)
    ids: dict[int, int] = {0: 0}
    for computation in message.computations:
        for one in (computation, *computation.instructions):
            ids.setdefault(one.id, len(ids))
    message.name, message.id = "", 0
    message.entry_computation_name = ""
    message.entry_computation_id = ids.get(message.entry_computation_id, 0)
    for computation in message.computations:
        _anonymize_computation(computation, ids)
    return "sha256:" + hashlib.sha256(message.SerializeToString(deterministic=True)).hexdigest()


def _anonymize_computation(computation: Any, ids: Mapping[int, int]) -> None:
    computation.name, computation.id = "", ids[computation.id]
    computation.root_id = ids[computation.root_id]
    del computation.program_shape.parameter_names[:]
    for one in computation.instructions:
        one.name, one.id = "", ids[one.id]
        one.ClearField("metadata")
        for field in ("operand_ids", "control_predecessor_ids", "called_computation_ids"):
            values = getattr(one, field)
            values[:] = [ids[value] for value in values]


def argument_bytes(module: bytes) -> int:
    """Of all that the module is given: weights, the optimizer's state, a batch."""
    shapes = parse(module).host_program_shape.parameters
    return sum(_BYTES.get(one.element_type, 4) * math.prod(one.dimensions) for one in shapes)


def products(module: bytes) -> Products:
    """Counts the module's products of matrices; what is in a loop counts once."""
    by_group: dict[str, float] = collections.defaultdict(float)
    padded, single = 0.0, []
    for one, left, right in _dots(parse(module)):
        sizes = _sizes(one, left, right)
        by_group[group_of(one.metadata.op_name)] += 2.0 * math.prod(sizes)
        padded += 2.0 * _padded(*sizes)
        if left.shape.element_type in _SINGLE:
            single.append(one.metadata.op_name or one.name)
    return Products(
        flops=sum(by_group.values()),
        flops_by_group={group.value: by_group[group] for group in Group},
        padded_flops=padded,
        single_precision=tuple(single),
    )


def _dots(message: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Each product with its two operands."""
    for computation in message.computations:
        by_id = {one.id: one for one in computation.instructions}
        for one in computation.instructions:
            if one.opcode == "dot":
                left, right = (by_id[i] for i in one.operand_ids)
                yield one, left, right


def _sizes(one: Any, left: Any, right: Any) -> tuple[int, int, int, int]:
    """Of a product: matrices, rows, columns, inner size."""
    numbers = one.dot_dimension_numbers
    size_left, size_right = left.shape.dimensions, right.shape.dimensions
    batch = math.prod(size_left[i] for i in numbers.lhs_batch_dimensions)
    inner = math.prod(size_left[i] for i in numbers.lhs_contracting_dimensions)
    rows = math.prod(size_left) // (batch * inner)
    columns = math.prod(size_right) // (batch * inner)
    return batch, rows, columns, inner


def _padded(batch: int, rows: int, columns: int, inner: int) -> float:
    return float(batch * _up(rows, _SUBLANES) * _up(columns, LANES) * _up(inner, LANES))


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
