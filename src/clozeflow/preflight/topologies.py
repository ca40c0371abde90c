"""What a slice is to the compiler, and how fast its chips are.

Peak rates are in `slices`. Clocks follow from them: a matrix unit of 128 x 128 (256 x 256 on v6e)
does a multiplication and an addition in each place and cycle, and a v2 core has one such unit, a v3
core two, a v5e chip four, a v6e chip two of the larger ones. Memory and network rates are those of
Cloud TPU's pages on each generation (v2 and v3: Jouppi et al., CACM 63/7, 2020).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from clozeflow.slices import Generation, Slice


@dataclasses.dataclass(frozen=True, kw_only=True)
class Topology:
    """A slice as libtpu names it."""

    name: str
    """Such as `v5e:2x2`: the grid of chips."""
    num_replicas: int
    """Cores that run the step."""
    chips_per_host: str = ""
    """As `1,1,1`, where the default is another."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Core:
    """What a core that runs the step can do."""

    clock_hertz: float
    peak_flops: float
    """bfloat16, a second."""
    hbm_limit_bytes: int
    """What the compiler lets a program have: less than the data sheet's."""
    hbm_bytes_per_second: float
    link_bytes_per_second: float
    """Of one link between chips, in one direction."""
    num_links: int


_GIB, _GIGA = 2**30, 1e9
_CLOCKS = {
    Generation.V2: 0.70 * _GIGA,
    Generation.V3: 0.94 * _GIGA,
    Generation.V5E: 1.50 * _GIGA,
    Generation.V6E: 1.75 * _GIGA,
}
_HBM_RATES = {  # of a chip
    Generation.V2: 700 * _GIGA,
    Generation.V3: 900 * _GIGA,
    Generation.V5E: 819 * _GIGA,
    Generation.V6E: 1640 * _GIGA,
}
_LINK_RATES = {
    Generation.V2: 62 * _GIGA,
    Generation.V3: 82 * _GIGA,
    Generation.V5E: 50 * _GIGA,
    Generation.V6E: 112 * _GIGA,
}
_USABLE_HBM_GIB = {
    Generation.V2: 7.48,
    Generation.V3: 16.0,
    Generation.V5E: 15.75,
    Generation.V6E: 31.25,
}
"""Of a core; from what the compiler says when a program does not fit."""
_GRIDS_BY_CHIPS: Mapping[int, str] = {
    4: "2x2",
    16: "4x4",
    32: "4x8",
    64: "8x8",
    128: "8x16",
    256: "16x16",
    512: "16x32",
    1024: "32x32",
}
"""Of v2 and v3, which Vertex AI asks for by cores."""


def topology_of(tpu: Slice) -> Topology:
    """The slice as libtpu names it."""
    grid = tpu.topology or _GRIDS_BY_CHIPS[tpu.num_chips]
    alone = "1,1,1" if tpu.num_chips == 1 else ""
    return Topology(
        name=f"{tpu.generation}:{grid}", num_replicas=tpu.num_replicas, chips_per_host=alone
    )


def core_of(tpu: Slice) -> Core:
    """A core of the slice: half a chip on v2 and v3, a chip later."""
    share = tpu.num_chips / tpu.num_replicas
    generation = tpu.generation
    return Core(
        clock_hertz=_CLOCKS[generation],
        peak_flops=tpu.peak_tflops_per_chip * 1e12 * share,
        hbm_limit_bytes=int(_USABLE_HBM_GIB[generation] * _GIB),
        hbm_bytes_per_second=_HBM_RATES[generation] * share,
        link_bytes_per_second=_LINK_RATES[generation],
        num_links=4,
    )
