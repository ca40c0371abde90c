"""Settings that fit, found with few tries; a rule stands in place of the compiler."""

import pytest

from clozeflow.preflight import search
from tests.preflight.plans import TrialsByRule, plan_of


def affine(plan) -> float:
    return 1.5 + 0.127 * plan.num_rows / plan.config.gradient_accumulation_steps


@pytest.mark.parametrize(
    ("rule", "largest", "most_tries"),
    [
        (affine, 112, 4),
        (lambda plan: 1.5 + 0.127 * plan.num_rows + (plan.num_rows > 100), 104, 5),  # with a step
        (lambda plan: 0.0 if plan.num_rows < 60 else 17.0, 56, 7),  # that says nothing of a line
        (lambda plan: 15.0 if plan.num_rows <= 8 else 99.0, 8, 7),
    ],
)
def test_largest_batch(rule, largest, most_tries):
    trials = TrialsByRule(rule)
    with plan_of(per_replica_batch_size=256, seq_len=512) as plan:
        too_large = trials.place(plan)
        best = search.largest_batch(trials, too_large)
    assert best.plan.num_rows == largest
    assert best.plan.config.global_batch_size == largest * 4
    assert len(trials.tried) - 1 <= most_tries


def test_a_model_that_fits_with_no_batch():
    trials = TrialsByRule(lambda plan: 20.0)
    with plan_of(per_replica_batch_size=64) as plan:
        assert search.largest_batch(trials, trials.place(plan)) is None


def test_proposals_are_tried_and_only_what_fits_is_one():
    def rule(plan) -> float:
        saved = 0.5 if plan.config.recompute == "layers" else 1.0
        return affine(plan) * saved * plan.seq_len / 512

    trials = TrialsByRule(rule)
    with plan_of(per_replica_batch_size=256, seq_len=512) as plan:
        found = list(search.proposals(trials, trials.place(plan)))
    what = {one.what.partition(",")[0]: one.trial.plan for one in found}
    assert all(one.trial.memory.does_fit for one in found)
    assert what["the same batch in 4 parts"].config.gradient_accumulation_steps == 4
    assert what["as many rows of 128 tokens (shards must be made so)"].num_rows == 256
    assert not any("again" in name for name in what)  # 17 GiB


def cycles(plan) -> int:
    again = 1.3 if plan.config.recompute == "layers" else 1.0
    return int(1000 * again) + 50 * plan.config.gradient_accumulation_steps


def test_the_fewest_parts_that_fit_are_the_fastest():
    trials = TrialsByRule(affine, cycles=cycles)
    with plan_of(per_replica_batch_size=256, gradient_accumulation_steps=8) as plan:
        (best,) = search.faster(trials, trials.compile(plan))
    assert best.trial.plan.config.gradient_accumulation_steps == 4
    assert best.trial.plan.config.recompute == "none"
    assert best.what == "14% fewer cycles by the estimate"


def test_what_is_the_fastest_already_has_no_proposal():
    trials = TrialsByRule(affine, cycles=cycles)
    with plan_of(per_replica_batch_size=64) as plan:
        assert list(search.faster(trials, trials.compile(plan))) == []
