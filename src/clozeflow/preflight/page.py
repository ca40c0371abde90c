"""`report.html` of a preflight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clozeflow import charts
from clozeflow.preflight.answer import Answer, warnings
from clozeflow.preflight.commands import command_of, settings_changed
from clozeflow.preflight.estimate import Estimate
from clozeflow.preflight.memory import GIB
from clozeflow.report import Report

if TYPE_CHECKING:
    from clozeflow.preflight.trials import Trial


def render(answer: Answer) -> str:
    """The report as HTML."""
    page = Report("Preflight")
    page.text(answer.headline())
    trial = answer.trial
    if not trial:
        return page.to_html()
    for warning in warnings(answer):
        page.text(f"Warning: {warning}")
    _proposals(page, answer, trial)
    _memory(page, trial)
    _operations(page, answer, trial)
    if answer.estimate:
        _speed(page, trial, answer.estimate)
    page.heading("How it was found out")
    versions = ", ".join(f"{name} {version}" for name, version in answer.versions.items())
    page.text(
        f"The training step was exported and compiled by the TPU's own compiler ({versions}) for "
        f"{trial.plan.topology.name}, with {trial.plan.tpu.num_replicas} replicas. Module: "
        f"{trial.module.fingerprint}."
    )
    page.quote(command_of(trial.plan))
    return page.to_html()


def _memory(page: Report, trial: Trial) -> None:
    memory = trial.memory
    page.heading("Memory of a core")
    rows: list[tuple[str, object]] = [
        ("needed at the peak (GiB)", memory.needed_bytes / GIB),
        ("there is (GiB)", memory.limit_bytes / GIB),
        ("share", f"{memory.share:.1%}"),
    ]
    if memory.before_rematerialization_bytes:
        again = memory.before_rematerialization_bytes / GIB
        rows.append(("without computing again (GiB)", again))
    page.table(["", ""], rows)


def _operations(page: Report, answer: Answer, trial: Trial) -> None:
    page.heading("A core's step")
    rows: list[tuple[str, object]] = [("parameters", trial.module.num_parameters)]
    if answer.products:
        rows.append(("products of matrices (TFLOP)", answer.products.flops / 1e12))
    if figures := trial.compilation.figures:
        rows.append(("all operations, by the compiler (TFLOP)", figures["flops"] / 1e12))
        rows.append(("read and written (GB)", figures["accessed_bytes"] / 1e9))
    page.table(["", ""], rows)
    if not trial.summary:
        return
    page.heading("Cycles by what they are for")
    parts = [(name, cycles) for name, cycles in trial.summary.cycles.items() if cycles]
    page.drawing(charts.named_bars(parts), "By the compiler's estimate; all-reduces have none.")
    page.heading("Loops")
    loops = [(loop.name, loop.num_turns, loop.cycles) for loop in trial.summary.loops]
    if loops:
        page.table(["loop", "turns", "cycles"], loops)
    else:
        page.text("None: nothing in the step is done one after the other.")


def _speed(page: Report, trial: Trial, estimate: Estimate) -> None:
    page.heading("Time and cost")
    config = trial.plan.config
    rows: list[tuple[object, ...]] = [
        ("a step (ms)", estimate.step_seconds.low * 1e3, estimate.step_seconds.high * 1e3),
        ("tokens a second", estimate.tokens_per_second.high, estimate.tokens_per_second.low),
        ("share of the peak", f"{estimate.mfu.high:.1%}", f"{estimate.mfu.low:.1%}"),
        (f"{config.num_train_steps:,} steps (hours)", estimate.hours.low, estimate.hours.high),
    ]
    if config.usd_per_chip_hour:
        rows.append(("cost (USD)", estimate.usd.low, estimate.usd.high))
    page.table(["", "at best", "at the slow end"], rows)
    for reason in estimate.reasons:
        page.text(reason)
    page.text(
        f"On two processors of a host the reader of shards gives {estimate.reader_headroom:,.1f} "
        "times the tokens that the cores take at best."
    )


def _proposals(page: Report, answer: Answer, trial: Trial) -> None:
    if not answer.proposals:
        return
    page.heading("What fits instead" if not trial.memory.does_fit else "What would be faster")
    rows = []
    for one in answer.proposals:
        plan, memory = one.trial.plan, one.trial.memory
        rows.append((one.what, plan.num_rows, memory.needed_bytes / GIB, f"{memory.share:.0%}"))
    page.table(["", "rows a core", "GiB", "share"], rows)
    for one in answer.proposals:
        page.text(f"{one.what}: {settings_changed(trial.plan, one.trial.plan)}")
        page.quote(command_of(one.trial.plan))
