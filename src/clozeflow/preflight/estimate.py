"""How long a step may take, and what the whole run comes to.

The compiler counts memory and operations; of time it has only an estimate, in cycles, which ranks
programs and is no clock. So what is said of time is a range, with its reasons.
"""

from __future__ import annotations

import dataclasses

from clozeflow.preflight.program import Summary
from clozeflow.preflight.topologies import Core
from clozeflow.slices import Slice

SLOWER_THAN_ESTIMATED = 1.5
"""The slow end of the range: a step that takes so many times the estimated cycles. No TPU was
there to set the estimate against."""
READER_TOKENS_PER_SECOND = 24_500_000
"""What the reader of shards gave on two cores (benchmarks/reader_speed.py: 191,500 rows of 128)."""
HOUR_SECONDS = 3600


@dataclasses.dataclass(frozen=True, kw_only=True)
class Range:
    """Two ends of what is not known exactly."""

    low: float
    high: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Estimate:
    """Of a run on a slice."""

    step_seconds: Range
    tokens_per_second: Range
    mfu: Range
    """Products of matrices as a share of the chips' peak."""
    hours: Range
    usd: Range
    """0 where no price is given."""
    reader_headroom: float
    """How many times the tokens that a host takes in at the fast end its reader gives, if the host
    had no more than two cores for it."""
    reasons: tuple[str, ...]


def estimate(
    summary: Summary,
    *,
    tpu: Slice,
    core: Core,
    matrix_flops: float,
    tokens_per_step: int,
    num_steps: int,
    usd_per_chip_hour: float,
) -> Estimate:
    """How fast and how long.

    Args:
        summary: Of the compiled step.
        tpu: The slice.
        core: One of its cores.
        matrix_flops: Of a core, in a step.
        tokens_per_step: Of all cores.
        num_steps: Of the run.
        usd_per_chip_hour: The price; 0 where it is not known.
    """
    by_cycles = summary.total_cycles / core.clock_hertz
    at_peak = matrix_flops / core.peak_flops
    sums = _all_reduce_seconds(summary.all_reduce_bytes, tpu, core)
    step = Range(
        low=max(by_cycles, at_peak) + sums.low, high=by_cycles * SLOWER_THAN_ESTIMATED + sums.high
    )
    hours = Range(
        low=step.low * num_steps / HOUR_SECONDS, high=step.high * num_steps / HOUR_SECONDS
    )
    price = tpu.num_chips * usd_per_chip_hour
    tokens = Range(low=tokens_per_step / step.high, high=tokens_per_step / step.low)
    return Estimate(
        step_seconds=step,
        tokens_per_second=tokens,
        mfu=Range(low=at_peak / step.high, high=at_peak / step.low),
        hours=hours,
        usd=Range(low=hours.low * price, high=hours.high * price),
        reader_headroom=READER_TOKENS_PER_SECOND * tpu.num_hosts / tokens.high,
        reasons=_reasons(by_cycles, at_peak, sums, core, summary),
    )


def _all_reduce_seconds(num_bytes: int, tpu: Slice, core: Core) -> Range:
    """Each core sends its bytes nearly twice: on all links of its chip, or on one of them."""
    if tpu.num_replicas == 1:
        return Range(low=0.0, high=0.0)
    sent = 2 * num_bytes * (tpu.num_replicas - 1) / tpu.num_replicas
    return Range(
        low=sent / (core.num_links * core.link_bytes_per_second),
        high=sent / core.link_bytes_per_second,
    )


def _reasons(
    by_cycles: float, at_peak: float, sums: Range, core: Core, summary: Summary
) -> tuple[str, ...]:
    clock = f"{core.clock_hertz / 1e9:g} GHz"
    return (
        f"The compiler's estimate is {summary.total_cycles:,} cycles, {by_cycles * 1e3:.1f} ms at "
        f"{clock}; the products of matrices alone take {at_peak * 1e3:.1f} ms at the peak.",
        f"The slow end takes {SLOWER_THAN_ESTIMATED:g} times the estimate: it knows neither what "
        "waits for memory nor what waits for the host.",
        f"The all-reduce of {summary.all_reduce_bytes / 1e6:,.0f} MB, which the compiler gives no "
        f"estimate of, takes {sums.low * 1e3:.1f} ms on all links of a chip and "
        f"{sums.high * 1e3:.1f} ms on one; none of it is taken to run beside the rest.",
        "Start, compilation, validation and checkpoints come on top.",
    )
