"""The compiled program's text: where its cycles go, and what it does in loops.

The compiler writes an estimate of its cycles to most instructions, and the name of the TensorFlow
operation that an instruction came from.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import re
from collections.abc import Iterator, Mapping


class Group(enum.StrEnum):
    """What a part of the step is for."""

    ATTENTION = "attention"
    FEED_FORWARD = "feed-forward"
    HEAD = "head"
    """With the loss."""
    EMBEDDINGS = "embeddings"
    OPTIMIZER = "optimizer"
    """With the gradients' norm and their clipping."""
    ALL_REDUCE = "all-reduce"
    OTHER = "other"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loop:
    """A loop of the program: its turns come one after the other."""

    name: str
    """The TensorFlow operation that it came from, or the loop's own name."""
    num_turns: int
    """1 where the text does not say."""
    cycles: int
    """Of all turns, by the compiler's estimate; what it has no estimate of counts nothing."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """Of a whole program, for one core and one step."""

    cycles: Mapping[str, int]
    """The compiler's estimate for each group."""
    loops: tuple[Loop, ...]
    all_reduce_bytes: int
    """What a core gives to the all-reduces."""
    host_transfers: int
    """Operations that wait for the host."""

    @property
    def total_cycles(self) -> int:
        """Of all groups."""
        return sum(self.cycles.values())


_GROUPS = (
    (Group.OPTIMIZER, re.compile(r"\boptimizer/|ResourceApply|global_norm")),
    (Group.HEAD, re.compile(r"lm_head|\bmlm|predictions|vocab_|\bloss/|generator_")),
    (Group.EMBEDDINGS, re.compile(r"embeddings")),
    (Group.ATTENTION, re.compile(r"attention")),
    (Group.FEED_FORWARD, re.compile(r"intermediate|feed_forward|ffn|\boutput/")),
)
_HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*)$")
_OPCODE = re.compile(r"(?:^|[\s)\]}])([a-z][a-z0-9\-]*)\(")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_CALLED = re.compile(r"(?:to_apply|calls|(?:true|false)_computation)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_BODY, _CONDITION = re.compile(r"body=%?([\w.\-]+)"), re.compile(r"condition=%?([\w.\-]+)")
_TURNS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_LIMIT = re.compile(r"s(?:32|64)\[\](?:\{[^}]*\})? constant\((\d+)\)")
_SHAPE = re.compile(r"\b(f64|s64|u64|f32|s32|u32|bf16|f16|s16|u16|s8|u8|pred)\[([\d,]*)\]")
_BYTES = {"64": 8, "32": 4, "16": 2, "8": 1, "ed": 1}
_ALL_REDUCES = frozenset({"all-reduce", "all-reduce-start"})
_HOST_TRANSFERS = frozenset({"infeed", "outfeed", "send", "recv"})


def summarize(text: str) -> Summary:
    """Reads a compiled program's text."""
    return _Reader(text).summary()


@dataclasses.dataclass(frozen=True)
class _Instruction:
    name: str
    opcode: str
    line: str
    """What stands behind the equals sign."""

    @property
    def op_name(self) -> str:
        found = _OP_NAME.search(self.line)
        return found[1].partition(";")[0] if found else ""


class _Reader:
    def __init__(self, text: str) -> None:
        self._computations: dict[str, list[_Instruction]] = collections.defaultdict(list)
        self._entry = ""
        self._read(text)
        self._cycles: collections.Counter[str] = collections.Counter()
        self._loops: list[Loop] = []
        self._all_reduce_bytes = self._host_transfers = 0

    def _read(self, text: str) -> None:
        name = ""
        for line in text.splitlines():
            if header := _HEADER.match(line):
                name = header[2]
                self._entry = name if header[1] else self._entry
            elif found := _INSTRUCTION.match(line):
                opcode = _OPCODE.search(found[2])
                self._computations[name].append(
                    _Instruction(found[1], opcode[1] if opcode else "", found[2])
                )

    def summary(self) -> Summary:
        self._add(self._entry, times=1)
        return Summary(
            cycles={group.value: self._cycles[group] for group in Group},
            loops=tuple(self._loops),
            all_reduce_bytes=self._all_reduce_bytes,
            host_transfers=self._host_transfers,
        )

    def _add(self, computation: str, *, times: int) -> int:
        """Counts a computation that runs so many times; returns its cycles in one of them."""
        total = 0
        for one in self._computations[computation]:
            estimate = _CYCLES.search(one.line)
            if one.opcode == "while":
                total += self._add_loop(one, times=times)
            elif one.opcode in ("call", "conditional"):
                total += sum(self._add(name, times=times) for name in _called(one.line))
            elif estimate:
                total += int(estimate[1])
                self._cycles[group_of(one.op_name, one.opcode)] += int(estimate[1]) * times
            self._count(one, times)
        return total

    def _add_loop(self, one: _Instruction, *, times: int) -> int:
        turns = self._turns(one.line)
        place = len(self._loops)
        body = _BODY.search(one.line)
        cycles = turns * self._add(body[1] if body else "", times=times * turns)
        name = one.op_name or one.name
        self._loops.insert(place, Loop(name=name, num_turns=turns, cycles=cycles))
        return cycles

    def _turns(self, line: str) -> int:
        if known := _TURNS.search(line):
            return int(known[1])
        condition = _CONDITION.search(line)
        inside = self._computations[condition[1]] if condition else []
        limits = [int(found[1]) for one in inside if (found := _LIMIT.search(one.line))]
        return max(limits, default=1)

    def _count(self, one: _Instruction, times: int) -> None:
        if one.opcode in _ALL_REDUCES:
            shape = one.line.partition(f" {one.opcode}(")[0]
            self._all_reduce_bytes += times * sum(_sizes(shape))
        self._host_transfers += one.opcode in _HOST_TRANSFERS


def group_of(op_name: str, opcode: str = "") -> Group:
    """The group of an operation of that name.

    Args:
        op_name: TensorFlow's name with its scopes, as XLA keeps it.
        opcode: XLA's.
    """
    if opcode in _ALL_REDUCES or "AllReduce" in op_name:
        return Group.ALL_REDUCE
    found = (group for group, pattern in _GROUPS if pattern.search(op_name))
    return next(found, Group.OTHER)


def _called(line: str) -> Iterator[str]:
    yield from _CALLED.findall(line)
    for names in _BRANCHES.findall(line):
        yield from (name.strip().lstrip("%") for name in names.split(","))


def _sizes(shape: str) -> Iterator[int]:
    """The bytes of each array in a shape."""
    for kind, dimensions in _SHAPE.findall(shape):
        size = _BYTES[kind.lstrip("fsubpr")]
        for dimension in filter(None, dimensions.split(",")):
            size *= int(dimension)
        yield size
