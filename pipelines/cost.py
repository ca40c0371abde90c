"""What a job may cost, from what was compiled."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from clozeflow.slices import Slice
from pipelines.arguments import Spec, stage_of, stage_tasks
from pipelines.lint import jobs, slice_of

_HOUR_SECONDS = 3600


@dataclasses.dataclass(frozen=True, kw_only=True)
class Estimate:
    """The chips of a slice, for so long."""

    tpu: Slice
    hours: float
    usd_per_chip_hour: float

    @property
    def usd(self) -> float:
        """Chips x hours x price."""
        return self.tpu.num_chips * self.hours * self.usd_per_chip_hour

    def __str__(self) -> str:
        time = f"{self.tpu.num_chips} chips ({self.tpu.name}) x {self.hours:g} h"
        if not self.usd_per_chip_hour:
            return f"{time}; give --usd-per-chip-hour to see what that costs"
        return f"{time} x {self.usd_per_chip_hour:g} USD = {self.usd:,.2f} USD"


def estimate(spec: Spec, *, hours: float, usd_per_chip_hour: float) -> list[Estimate]:
    """One estimate for each custom job on a TPU slice.

    Args:
        spec: The compiled pipeline.
        hours: How long training is expected to take; 0 takes the job's timeout, the most it can.
        usd_per_chip_hour: The price; 0 where it is not known.
    """
    found = []
    for _, component, pools in jobs(spec):
        tpu = slice_of(pools[0]["machine_spec"])
        if tpu:
            fields = component["inputDefinitions"]["parameters"]
            limit = float(fields["timeout"]["defaultValue"].removesuffix("s")) / _HOUR_SECONDS
            found.append(
                Estimate(tpu=tpu, hours=hours or limit, usd_per_chip_hour=usd_per_chip_hour)
            )
    return found


def preflights(spec: Spec, arguments: Mapping[str, Any]) -> Iterator[str]:
    """What is said of each preflight in a pipeline before it is sent.

    Args:
        spec: The compiled pipeline.
        arguments: Values of all its parameters.
    """
    for _, component, settings in stage_tasks(spec, spec["root"], arguments):
        if stage_of(spec, component) != "preflight" or not settings.get("tpu"):
            continue
        if settings.get("preflight") == "off":
            yield "There is no preflight: whether the step fits is seen when the slice is paid for."
        else:
            yield (
                f"Before training, a preflight has the step compiled for {settings['tpu']} on a "
                "CPU, and ends the run where it does not fit."
            )
