"""What libtpu's log says of memory while it compiles. Its words are those of the pinned version.

A log that says nothing of this is no failure: then the whole program is compiled, and its figures
tell the same, later.
"""

from __future__ import annotations

import re

PLACED = re.compile(r"llo_module\.h|lowering_emitter\.cc")
"""The first words of the stage after buffers were given their places, and the places verified."""
_GIB = 2**30
_UNITS = {"K": 2**10, "M": 2**20, "G": _GIB, "T": 2**40, "": 1}
_SIZE = r"([\d.]+)([KMGT]?)"
_HEAP = re.compile(r"algorithm finished with size: (\d+)")
_OVERLAYS = re.compile(rf"overlays \({_SIZE}\)")
_REMATERIALIZED = re.compile(rf"rematerialization hbm reduction:\s+{_SIZE} => {_SIZE}")
_WANTED = (
    re.compile(rf"Used {_SIZE} of {_SIZE} hbm"),
    re.compile(rf"total memory required for [\w ]+ \({_SIZE}\) exceeds available HBM \({_SIZE}\)"),
)


def read(log: str) -> dict[str, float]:
    """What a log says, in bytes; what it does not say is not there.

    Returns:
        `temporary_bytes`, of values that live for a while, with the code where that is said;
        `before_rematerialization_bytes` where the compiler has to compute things again for want of
        room.
    """
    found: dict[str, float] = {}
    sizes = [float(size) for size in _HEAP.findall(log)]
    if sizes:
        found["temporary_bytes"] = max(sizes) + _last(_OVERLAYS, log)
    if match := list(_REMATERIALIZED.finditer(log)):
        before, after = _bytes(*match[-1].groups()[:2]), _bytes(*match[-1].groups()[2:])
        if before > after:
            found["before_rematerialization_bytes"] = before
    return found


def wanted(message: str) -> tuple[float, float] | None:
    """What a program wants and what there is, in bytes, from the words of one that does not fit."""
    for pattern in _WANTED:
        if match := pattern.search(message):
            groups = match.groups()
            return _bytes(*groups[:2]), _bytes(*groups[2:])
    return None


def _last(pattern: re.Pattern[str], log: str) -> float:
    found = pattern.findall(log)
    return _bytes(*found[-1]) if found else 0.0


def _bytes(number: str, unit: str) -> float:
    return float(number) * _UNITS[unit]
