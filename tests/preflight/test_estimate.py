"""Time, speed and cost, from figures that can be followed by hand."""

import pytest

from clozeflow.preflight.estimate import SLOWER_THAN_ESTIMATED, estimate
from clozeflow.preflight.program import Summary
from clozeflow.preflight.topologies import core_of
from clozeflow.slices import find_slice


def of(name: str, *, cycles: int = 75_000_000, flops: float = 4.3e12):
    tpu = find_slice(name)
    summary = Summary(
        cycles={"attention": cycles}, loops=(), all_reduce_bytes=500_000_000, host_transfers=0
    )
    return estimate(
        summary,
        tpu=tpu,
        core=core_of(tpu),
        matrix_flops=flops,
        tokens_per_step=tpu.num_replicas * 64 * 128,
        num_steps=7200,
        usd_per_chip_hour=2.0,
    )


def test_one_chip_waits_for_no_other():
    found = of("v5e-1")
    assert found.step_seconds.low == pytest.approx(0.050)
    assert found.step_seconds.high == pytest.approx(0.050 * SLOWER_THAN_ESTIMATED)
    assert found.hours.low == pytest.approx(0.1)
    assert found.usd.low == pytest.approx(0.2)
    assert found.tokens_per_second.high == pytest.approx(64 * 128 / 0.050)
    assert found.mfu.high == pytest.approx(4.3e12 / 197e12 / 0.050)


def test_several_chips_add_their_gradients_between_one_link_and_all():
    one, four = of("v5e-1"), of("v5e-4")
    sent = 2 * 500e6 * 3 / 4
    assert four.step_seconds.low - one.step_seconds.low == pytest.approx(sent / 200e9)
    assert four.step_seconds.high - one.step_seconds.high == pytest.approx(sent / 50e9)
    assert four.usd.low > 4 * one.usd.low


def test_no_step_is_faster_than_the_peak():
    found = of("v5e-1", cycles=1000)
    assert found.mfu.high == pytest.approx(1.0)
