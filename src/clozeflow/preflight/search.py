"""What would fit where the settings do not, and what would be fastest.

Whether a program fits is settled within seconds, so every proposal here was tried: none is only
calculated.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Sequence

from clozeflow.preflight.commands import command_of
from clozeflow.preflight.trials import Trial, Trials
from clozeflow.training.config import Recompute

logger = logging.getLogger(__name__)

_LEAST_STEP = 8
"""Batches are looked for in multiples of a tile's rows; large ones more coarsely."""
_FINENESS = 32
_MOST_TRIALS = 8
_SHORTEST_ROWS = 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class Proposal:
    """Settings that fit, in place of those that do not."""

    what: str
    trial: Trial


def proposals(trials: Trials, too_large: Trial) -> Iterator[Proposal]:
    """What fits in place of a plan that does not, each tried.

    Args:
        trials: Tries plans.
        too_large: The plan that does not fit.
    """
    largest = largest_batch(trials, too_large)
    if largest:
        yield _said("the largest batch that fits", largest)
    for what, trial in _one_change(trials, too_large, largest):
        if trial.memory.does_fit:
            yield _said(what, trial)


def _said(what: str, trial: Trial) -> Proposal:
    """The proposal, which is said at once: the others may take minutes."""
    logger.info("%s: %s", what, command_of(trial.plan))
    return Proposal(what=what, trial=trial)


def largest_batch(trials: Trials, too_large: Trial, fits: Trial | None = None) -> Trial | None:
    """The most rows on a core that fit, by multiples; None if not even the least do.

    Args:
        trials: Tries plans.
        too_large: A plan that does not fit.
        fits: One that does, with fewer rows, where one is known.
    """
    plan = too_large.plan.changed(gradient_accumulation_steps=1)
    step = max(_LEAST_STEP, 2 ** (plan.num_rows.bit_length() - 1) // _FINENESS)
    failed, best = [too_large], fits
    for _ in range(_MOST_TRIALS):
        rows = _next_rows(best.plan.num_rows if best else 0, failed, step)
        if rows is None:
            break
        trial = trials.place(plan.with_rows(rows))
        if trial.memory.does_fit:
            best = trial
        else:
            failed.append(trial)
    return best


def _next_rows(low: int, failed: Sequence[Trial], step: int) -> int | None:
    """A multiple of the step between what fits and what does not; None if there is none.

    What does not fit says how much it wants, and memory is close to a line in the rows: the line
    through the two smallest of them says where the limit is. With one of them, half of it is tried.
    """
    *_, second, nearest = [None, *sorted(failed, key=lambda t: -t.plan.num_rows)]
    assert nearest
    high = nearest.plan.num_rows
    first, last = low // step + 1, (high - 1) // step
    if first > last:
        return None
    guess = (low + high) / 2
    if second and second.memory.needed_bytes > nearest.memory.needed_bytes > 0:
        per_row = (second.memory.needed_bytes - nearest.memory.needed_bytes) / (
            second.plan.num_rows - high
        )
        guess = high - (nearest.memory.needed_bytes - nearest.memory.limit_bytes) / per_row
    return min(max(int(guess) // step, first), last) * step


def _one_change(
    trials: Trials, too_large: Trial, largest: Trial | None
) -> Iterator[tuple[str, Trial]]:
    """The same batch with one setting changed."""
    plan = too_large.plan
    if largest and (parts := _parts(plan.num_rows, largest.plan.num_rows)):
        changed = plan.changed(gradient_accumulation_steps=parts)
        yield f"the same batch in {parts} parts", trials.place(changed)
    if plan.config.recompute is Recompute.NONE:
        changed = plan.changed(recompute=Recompute.LAYERS)
        yield "the same batch, layers computed again for the gradient", trials.place(changed)
    for seq_len in (plan.seq_len // 2, plan.seq_len // 4):
        if seq_len < _SHORTEST_ROWS:
            return
        trial = trials.place(plan.changed(seq_len=seq_len))
        yield f"as many rows of {seq_len} tokens (shards must be made so)", trial
        if trial.memory.does_fit:
            return


def _parts(num_rows: int, most: int) -> int | None:
    """Into how many equal parts, at least two, so that none has more than so many rows."""
    return next(
        (n for n in range(2, num_rows + 1) if not num_rows % n and num_rows // n <= most), None
    )


def faster(trials: Trials, asked: Trial) -> Iterator[Proposal]:
    """The settings with the fewest estimated cycles for the plan's global batch, if not its own.

    Accumulation and recomputation alone are varied: they change neither the model nor its updates.

    Args:
        trials: Tries plans; of each kind the first that fits is compiled to its end.
        asked: The plan as it was asked for, compiled.
    """
    compiled = [asked]
    for recompute in Recompute:
        for parts in (1, 2, 4, 8, 16):
            if asked.plan.num_rows % parts:
                break
            plan = asked.plan.changed(recompute=recompute, gradient_accumulation_steps=parts)
            if plan != asked.plan and trials.place(plan).memory.does_fit:
                compiled.append(trials.compile(plan))
            if plan == asked.plan or compiled[-1].plan == plan:
                break  # more parts are more turns of a loop, and never faster
    best = min((trial for trial in compiled if trial.cycles), key=lambda trial: trial.cycles)
    if best is not asked:
        saved = 1 - best.cycles / asked.cycles
        yield Proposal(what=f"{saved:.0%} fewer cycles by the estimate", trial=best)
