"""TPU slices by name: what to ask Vertex AI for, and what a chip can do.

One table for the compiler of pipelines, for preflight and for the MFU of training. Machine types
and topologies are those of Vertex AI's documentation of TPU training; memory and peak rates are
those of Cloud TPU's system architecture pages.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
from collections.abc import Iterator

from clozeflow.errors import UserError


class Generation(enum.StrEnum):
    """TPU generations that Vertex AI trains on."""

    V2 = "v2"
    V3 = "v3"
    V5E = "v5e"
    V6E = "v6e"


UNSUPPORTED = frozenset({Generation.V6E})
"""What TensorFlow does not support by default."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Slice:
    """A TPU slice: some hosts with some chips each, joined by one network."""

    name: str
    generation: Generation
    machine_type: str
    accelerator_type: str = ""
    """For v2 and v3, which are asked for by a number of cores."""
    accelerator_count: int = 0
    topology: str = ""
    """For v5e and v6e, which are asked for by a grid of chips, for example `2x4`."""
    num_hosts: int
    num_chips: int
    num_replicas: int
    """Cores that run the step: two a chip on v2 and v3, one on later ones."""
    hbm_gib_per_chip: int
    peak_tflops_per_chip: float
    """bfloat16."""


_CHIPS = {  # generation: HBM in GiB, peak bfloat16 TFLOP/s
    Generation.V2: (16, 46.0),
    Generation.V3: (32, 123.0),
    Generation.V5E: (16, 197.0),
    Generation.V6E: (32, 918.0),
}
_CORES = {
    Generation.V2: (8, 32, 128, 256, 512),
    Generation.V3: (8, 32, 64, 128, 256, 512, 1024, 2048),
}
_TOPOLOGIES = {  # chips: machine's suffix, topology, hosts
    1: ("1t", "1x1", 1),
    4: ("4t", "2x2", 1),
    8: ("8t", "2x4", 1),
    16: ("4t", "4x4", 4),
    32: ("4t", "4x8", 8),
    64: ("4t", "8x8", 16),
    128: ("4t", "8x16", 32),
    256: ("4t", "16x16", 64),
}
_MACHINES = {Generation.V5E: "ct5lp-hightpu", Generation.V6E: "ct6e-standard"}
_CORES_PER_CHIP, _CHIPS_PER_HOST = 2, 4


def _by_cores(generation: Generation) -> Iterator[Slice]:
    hbm, peak = _CHIPS[generation]
    for cores in _CORES[generation]:
        chips = cores // _CORES_PER_CHIP
        yield Slice(
            name=f"{generation}-{cores}",
            generation=generation,
            machine_type="cloud-tpu",
            accelerator_type=f"TPU_{generation.upper()}",
            accelerator_count=cores,
            num_hosts=chips // _CHIPS_PER_HOST,
            num_chips=chips,
            num_replicas=cores,
            hbm_gib_per_chip=hbm,
            peak_tflops_per_chip=peak,
        )


def _by_topology(generation: Generation) -> Iterator[Slice]:
    hbm, peak = _CHIPS[generation]
    for chips, (suffix, topology, hosts) in _TOPOLOGIES.items():
        yield Slice(
            name=f"{generation}-{chips}",
            generation=generation,
            machine_type=f"{_MACHINES[generation]}-{suffix}",
            topology=topology,
            num_hosts=hosts,
            num_chips=chips,
            num_replicas=chips,
            hbm_gib_per_chip=hbm,
            peak_tflops_per_chip=peak,
        )


SLICES: dict[str, Slice] = {
    tpu.name: tpu
    for tpu in (
        *_by_cores(Generation.V2),
        *_by_cores(Generation.V3),
        *_by_topology(Generation.V5E),
        *_by_topology(Generation.V6E),
    )
}
"""Every slice, by its name."""


def find_slice(name: str) -> Slice:
    """The slice of that name.

    Raises:
        UserError: There is none; the message names the nearest of the same generation, or one that
            TensorFlow supports.
    """
    if name in SLICES:
        return SLICES[name]
    raise UserError(
        "--tpu",
        "there is no such slice",
        got=name,
        expected=f"for example {_nearest(name)}",
        fix=f"Slices: {', '.join(SLICES)}.",
    )


def _nearest(name: str) -> str:
    generation, _, size = name.partition("-")
    same = [tpu for tpu in SLICES if tpu.startswith(f"{generation}-")]
    if same and size.isdigit():
        return min(same, key=lambda tpu: abs(int(tpu.partition("-")[2]) - int(size)))
    supported = [tpu.name for tpu in SLICES.values() if tpu.generation not in UNSUPPORTED]
    return (same or difflib.get_close_matches(name, supported, n=1, cutoff=0.0))[0]
