"""Plans and trials without a compiler."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from clozeflow.preflight.compilation import Compilation, Status, Until
from clozeflow.preflight.config import PreflightConfig
from clozeflow.preflight.memory import Memory, Verdict
from clozeflow.preflight.plan import Module, Plan, PlannedTokenizer, make_plan
from clozeflow.preflight.trials import Trial, Trials

GIB = 2**30
PROGRAM = """ENTRY %%main (a: f32[]) -> f32[] {
  ROOT %%x = f32[] fusion(%%a), backend_config={"estimated_cycles":"%d"}
}
"""


@contextlib.contextmanager
def plan_of(**settings) -> Iterator[Plan]:
    with make_plan(PreflightConfig(**{"tpu": "v5e-4", "preset": "tiny", **settings}), {}) as plan:
        yield plan


class TrialsByRule(Trials):
    """Tries plans by a rule for how many GiB one takes, in place of the compiler."""

    def __init__(
        self,
        needed_gib: Callable[[Plan], float],
        *,
        limit_gib: float = 16.0,
        cycles: Callable[[Plan], int] = lambda plan: 1,
    ) -> None:
        self.needed_gib, self.limit_gib, self.cycles = needed_gib, limit_gib, cycles
        self.tried: list[Plan] = []

    def _try(self, plan, until) -> Trial:
        self.tried.append(plan)
        needed = self.needed_gib(plan)
        fits = needed <= self.limit_gib
        return Trial(
            plan=plan,
            module=Module(content=b"", fingerprint="", argument_bytes=0, num_parameters=0),
            compilation=Compilation(
                status=Status.COMPILED if fits else Status.OUT_OF_MEMORY,
                text=PROGRAM % self.cycles(plan) if fits and until is Until.COMPILED else "",
            ),
            memory=Memory(
                verdict=Verdict.FITS if fits else Verdict.DOES_NOT_FIT,
                needed_bytes=needed * GIB,
                limit_bytes=self.limit_gib * GIB,
            ),
            seconds=0.0,
        )


__all__ = ["PlannedTokenizer", "TrialsByRule", "plan_of"]
