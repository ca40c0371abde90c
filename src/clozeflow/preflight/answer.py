"""The answer: what was found out, as values, as JSON and as text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from clozeflow.preflight.commands import command_of, settings_changed
from clozeflow.preflight.estimate import Estimate
from clozeflow.preflight.memory import GIB, Memory, Verdict

if TYPE_CHECKING:
    from clozeflow.preflight.module import Products
    from clozeflow.preflight.search import Proposal
    from clozeflow.preflight.trials import Trial

_FEW_TURNS = 2
_GREAT_PADDING = 1.25


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """Of a preflight."""

    verdict: Verdict
    reason: str = ""
    """Why nothing was found out, where nothing was."""
    trial: Trial | None = None
    """The plan, compiled."""
    products: Products | None = None
    estimate: Estimate | None = None
    """Where the plan fits."""
    proposals: tuple[Proposal, ...] = ()
    """What fits in its place, or what is faster."""
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Of the compiler."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it: of one core and one step, where nothing else is said."""
        found: dict[str, Any] = {"verdict": self.verdict.value, "reason": self.reason}
        if not self.trial:
            return found
        found |= {
            "compiler": dict(self.versions),
            **_plan(self.trial),
            **_memory(self.trial.memory),
        }
        if self.products:
            found |= _operations(self.trial, self.products)
        if self.estimate:
            found["estimate"] = dataclasses.asdict(self.estimate)
        found["warnings"] = list(warnings(self))
        found["proposals"] = [_proposal(self.trial, one) for one in self.proposals]
        return found

    def lines(self) -> Iterator[str]:
        """As text."""
        yield f"preflight: {self.headline()}"
        if self.trial:
            yield from _detail_lines(self, self.trial)

    def headline(self) -> str:
        """The verdict in a sentence."""
        if not self.trial:
            return f"{self.verdict.value}: {self.reason}"
        plan, memory = self.trial.plan, self.trial.memory
        where = (
            f"{plan.num_rows} rows of {plan.seq_len} tokens on each of {plan.tpu.num_replicas} "
            f"cores ({plan.tpu.name})"
        )
        words = {
            Verdict.FITS: f"fits, with {_gib(memory.limit_bytes - memory.needed_bytes)} to spare",
            Verdict.TIGHT: "fits tightly",
            Verdict.DOES_NOT_FIT: "DOES NOT FIT",
            Verdict.UNAVAILABLE: f"not known whether it fits: {self.reason}",
        }
        head = f"{where}: {words[self.verdict]}"
        if not memory.needed_bytes:
            return head
        share = f"{_gib(memory.needed_bytes)} of {_gib(memory.limit_bytes)}, {memory.share:.0%}"
        return f"{head} ({share})"


def warnings(answer: Answer) -> Iterator[str]:
    """What a TPU hates, and what leaves little room."""
    trial, products = answer.trial, answer.products
    if not trial:
        return
    memory = trial.memory
    if memory.does_fit and memory.before_rematerialization_bytes:
        yield (
            f"For want of memory the compiler computes values again: without that the step would "
            f"take {_gib(memory.before_rematerialization_bytes)}. That costs time."
        )
    elif memory.verdict is Verdict.TIGHT:
        yield "More than 90 % of the memory: another version of the compiler may not fit it."
    if trial.summary:
        yield from _program_warnings(trial)
    if products and products.single_precision:
        first = products.single_precision[0]
        yield (
            f"{len(products.single_precision)} products of matrices are in float32, which takes "
            f"several passes: the first is {first}."
        )
    if products and products.padded_flops > _GREAT_PADDING * products.flops:
        share = 1 - products.flops / products.padded_flops
        yield f"{share:.0%} of the matrix unit's work is padding: sizes are no multiples of 128."


def _program_warnings(trial: Trial) -> Iterator[str]:
    assert trial.summary
    parts = trial.plan.config.gradient_accumulation_steps
    for loop in trial.summary.loops:
        if loop.num_turns == parts:
            continue  # asked for
        if loop.num_turns >= _FEW_TURNS or not loop.cycles:
            yield (
                f"Serial loop {loop.name}: {loop.num_turns:,} turns one after the other, "
                f"{loop.cycles:,} cycles by the estimate."
            )
    if trial.summary.host_transfers:
        yield f"{trial.summary.host_transfers} operations of the step wait for the host."


def _detail_lines(answer: Answer, trial: Trial) -> Iterator[str]:
    yield f"  parameters: {trial.module.num_parameters:,}"
    if answer.products:
        yield from _operation_lines(trial, answer.products)
    if answer.estimate:
        yield from _estimate_lines(answer, answer.estimate)
    for warning in warnings(answer):
        yield f"  warning: {warning}"
    for proposal in answer.proposals:
        plan, memory = proposal.trial.plan, proposal.trial.memory
        yield f"  {proposal.what}: {plan.num_rows} rows a core, {_gib(memory.needed_bytes)}"
        yield f"    {command_of(plan)}"
        yield f"    (for training: {settings_changed(trial.plan, plan)})"


def _operation_lines(trial: Trial, products: Products) -> Iterator[str]:
    figures = trial.compilation.figures
    line = f"  a core's step: {products.flops / 1e12:.3f} TFLOP in products of matrices"
    if figures:
        line += (
            f", {figures['flops'] / 1e12:.3f} in all by the compiler; "
            f"{figures['accessed_bytes'] / 1e9:.1f} GB read and written"
        )
    yield line
    if trial.summary:
        total = trial.cycles
        groups = [
            f"{name} {cycles / 1e6:.2f} M ({cycles / total:.0%})"
            for name, cycles in trial.summary.cycles.items()
            if cycles
        ]
        yield f"  cycles by the compiler's estimate: {total / 1e6:.2f} M; {', '.join(groups)}"


def _estimate_lines(answer: Answer, estimate: Estimate) -> Iterator[str]:
    trial = answer.trial
    assert trial
    config = trial.plan.config
    step, tokens, hours = estimate.step_seconds, estimate.tokens_per_second, estimate.hours
    yield (
        f"  a step: {step.low * 1e3:.1f} to {step.high * 1e3:.1f} ms; {tokens.low:,.0f} to "
        f"{tokens.high:,.0f} tokens/s; {estimate.mfu.low:.0%} to {estimate.mfu.high:.0%} of peak"
    )
    line = f"  {config.num_train_steps:,} steps: {hours.low:.3g} to {hours.high:.3g} hours"
    if config.usd_per_chip_hour:
        line += f", {estimate.usd.low:,.2f} to {estimate.usd.high:,.2f} USD"
    yield line
    for reason in estimate.reasons:
        yield f"    {reason}"
    enough = "feeds" if estimate.reader_headroom >= 1 else "does NOT feed"
    yield (
        f"  the reader {enough} it: on two processors of a host it gives "
        f"{estimate.reader_headroom:,.1f} times what the cores take at the fast end"
    )


def _plan(trial: Trial) -> dict[str, Any]:
    plan = trial.plan
    return {
        "tpu": plan.tpu.name,
        "topology": plan.topology.name,
        "num_replicas": plan.tpu.num_replicas,
        "per_replica_batch_size": plan.num_rows,
        "global_batch_size": plan.config.global_batch_size,
        "seq_len": plan.seq_len,
        "vocab_size": len(plan.tokenizer),
        "num_masked_positions": plan.num_masked_positions,
        "num_train_steps": plan.config.num_train_steps,
        "num_parameters": trial.module.num_parameters,
        "module": trial.module.fingerprint,
        "command": command_of(plan),
    }


def _memory(memory: Memory) -> dict[str, Any]:
    return {
        "memory": {
            "needed_bytes": memory.needed_bytes,
            "limit_bytes": memory.limit_bytes,
            "share": memory.share,
            "margin_bytes": memory.limit_bytes - memory.needed_bytes,
            "before_rematerialization_bytes": memory.before_rematerialization_bytes,
        }
    }


def _operations(trial: Trial, products: Products) -> dict[str, Any]:
    found = {"matrix_flops": products.flops, "matrix_flops_by_group": products.flops_by_group}
    if trial.summary:
        found |= {
            "flops": trial.compilation.figures["flops"],
            "accessed_bytes": trial.compilation.figures["accessed_bytes"],
            "cycles": dict(trial.summary.cycles),
            "loops": [dataclasses.asdict(loop) for loop in trial.summary.loops],
            "all_reduce_bytes": trial.summary.all_reduce_bytes,
        }
    return found


def _proposal(asked: Trial, proposal: Proposal) -> dict[str, Any]:
    plan = proposal.trial.plan
    return {
        "what": proposal.what,
        "per_replica_batch_size": plan.num_rows,
        "global_batch_size": plan.config.global_batch_size,
        **_memory(proposal.trial.memory),
        "verdict": proposal.trial.memory.verdict.value,
        "command": command_of(plan),
        "settings": settings_changed(asked.plan, plan),
    }


def _gib(size: float) -> str:
    return f"{size / GIB:.2f} GiB"
