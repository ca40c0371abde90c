"""Plans compiled, far enough to answer what is asked of them."""

from __future__ import annotations

import dataclasses
import functools
import logging
import time

from clozeflow.preflight.compilation import Compilation, Status, TpuCompiler, Until
from clozeflow.preflight.memory import Memory, memory_of
from clozeflow.preflight.plan import Exporter, Module, Plan
from clozeflow.preflight.program import Summary, summarize

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """A plan, and what the compiler says of it."""

    plan: Plan
    module: Module
    compilation: Compilation
    memory: Memory
    seconds: float
    """That it took to find out."""

    @functools.cached_property
    def summary(self) -> Summary | None:
        """Of the compiled program; None where there is none."""
        return summarize(self.compilation.text) if self.compilation.text else None

    @property
    def cycles(self) -> int:
        """That the compiler estimates; 0 where there is no program."""
        return self.summary.total_cycles if self.summary else 0


@dataclasses.dataclass(kw_only=True)
class Trials:
    """Tries plans, one after the other."""

    compiler: TpuCompiler
    exporter: Exporter = dataclasses.field(default_factory=Exporter)

    def compile(self, plan: Plan) -> Trial:
        """The whole program."""
        return self._try(plan, Until.COMPILED)

    def place(self, plan: Plan) -> Trial:
        """Whether it fits, in a tenth of the time."""
        return self._try(plan, Until.PLACED)

    def _try(self, plan: Plan, until: Until) -> Trial:
        start = time.monotonic()
        module = self.exporter.export(plan)
        compilation = self.compiler.compile(
            module.content, fingerprint=module.fingerprint, topology=plan.topology, until=until
        )
        memory = memory_of(
            compilation,
            argument_bytes=module.argument_bytes,
            limit_bytes=plan.core.hbm_limit_bytes,
        )
        seconds = time.monotonic() - start
        logger.info("%s: %s (%.0f s)", _words(plan), _outcome(compilation, memory), seconds)
        return Trial(
            plan=plan, module=module, compilation=compilation, memory=memory, seconds=seconds
        )


def _words(plan: Plan) -> str:
    parts = [f"{plan.num_rows} rows of {plan.seq_len} tokens a core"]
    if plan.config.gradient_accumulation_steps > 1:
        parts.append(f"in {plan.config.gradient_accumulation_steps} parts")
    if plan.config.recompute != "none":
        parts.append("recomputed")
    return ", ".join(parts)


def _outcome(compilation: Compilation, memory: Memory) -> str:
    if compilation.status is Status.UNAVAILABLE:
        return compilation.message
    fits = "fits" if memory.does_fit else "does not fit"
    return f"{fits}, {memory.needed_bytes / 2**30:.2f} of {memory.limit_bytes / 2**30:.2f} GiB"
