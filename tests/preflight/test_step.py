"""What is compiled is what trains."""

import numpy as np
import pytest

import clozeflow.training  # noqa: F401  (before TensorFlow)
from clozeflow.preflight import module
from clozeflow.preflight.config import PreflightConfig
from clozeflow.preflight.plan import Exporter, make_plan
from clozeflow.slices import find_slice
from clozeflow.training import hlo, stage
from clozeflow.training.config import TrainConfig
from clozeflow.training.masking import MaskingRule
from tests.preflight.plans import plan_of

SETTINGS = {"preset": "tiny", "num_train_steps": 8, "global_batch_size": 8, "dropout_rate": 0.1}
ON_TPU = {"precision": "bfloat16", "compiler": "xla"}
"""What training has on a TPU by itself; here, on a CPU, it is told."""


class Stopped(Exception):
    """In place of training."""


def trained_step(config, shards, tokenizer, tmp_path, monkeypatch):
    """The run that the train stage is about to start: its step and its batches."""
    caught = []

    def stop(run, progress):
        caught.append(run)
        raise Stopped

    monkeypatch.setattr(stage, "train", stop)
    with pytest.raises(Stopped):
        stage.run(config, {"shards": shards, "tokenizer": tokenizer}, str(tmp_path / "model"))
    return caught[0]


@pytest.mark.parametrize(
    "changed",
    [{}, {"optimizer": "lamb", "masking_unit": "span"}, {"gradient_accumulation_steps": 2}],
    ids=str,
)
def test_preflight_compiles_the_step_that_trains(shards, tokenizer, tmp_path, monkeypatch, changed):
    settings = {**SETTINGS, **changed}
    run = trained_step(TrainConfig(**settings, **ON_TPU), shards, tokenizer, tmp_path, monkeypatch)
    spec = run.batches.element_spec
    trained = module.fingerprint(hlo.step_hlo(run.step, spec))
    config = PreflightConfig(**settings, tpu="v5e-1")
    with make_plan(config, {"shards": shards, "tokenizer": tokenizer}) as plan:
        assert Exporter().export(plan).fingerprint == trained
        other = plan.changed(peak_learning_rate=1e-3)
        assert Exporter().export(other).fingerprint != trained


def test_a_planned_tokenizer_stands_for_a_real_one(shards, tokenizer):
    config = PreflightConfig(**SETTINGS, tpu="v5e-1", seq_len=16, vocab_size=256)
    with make_plan(config, {"shards": shards, "tokenizer": tokenizer}) as real:
        of_real = Exporter().export(real).fingerprint
    with make_plan(config, {}) as planned:
        assert Exporter().export(planned).fingerprint == of_real


def test_several_replicas_add_up_every_gradient():
    with plan_of(per_replica_batch_size=4, seq_len=16, vocab_size=64) as plan:
        exported = Exporter().export(plan)
    message = module.parse(exported.content)
    sums = [i for c in message.computations for i in c.instructions if i.opcode == "all-reduce"]
    size = sum(int(np.prod(one.shape.dimensions, dtype=int)) for one in sums)
    assert size == exported.num_parameters + 3  # and the sums of losses, right guesses, tokens
    assert [list(g.replica_ids) for g in sums[0].collective_device_list.replica_groups] == [
        [0, 1, 2, 3]
    ]


def paper_flops(*, layers, hidden, vocab_rows, seq_len, masked, rows) -> float:
    """Products of matrices, by hand: the last layer and the head work at masked positions alone."""
    queries_to_output = 2 * hidden * hidden + 8 * hidden * hidden + 2 * seq_len * hidden
    keys_and_values = 2 * hidden * hidden
    layer = seq_len * (queries_to_output + keys_and_values)
    last = seq_len * keys_and_values + masked * queries_to_output
    head = masked * (hidden * hidden + hidden * vocab_rows)
    # Two for a multiplication with its addition; three for the product and its two gradients.
    return 2.0 * 3.0 * rows * ((layers - 1) * layer + last + head)


TINY = {"layers": 2, "hidden": 128, "vocab_rows": 8192}
BASE = {"layers": 12, "hidden": 768, "vocab_rows": 50304}


@pytest.mark.parametrize(
    ("preset", "vocab_size", "size"),
    [("tiny", 8192, TINY), pytest.param("base", 50265, BASE, marks=pytest.mark.slow)],
)
def test_products_of_matrices_are_those_of_a_count_on_paper(preset, vocab_size, size):
    with plan_of(preset=preset, vocab_size=vocab_size, per_replica_batch_size=16) as plan:
        assert plan.num_masked_positions == 19
        found = module.products(Exporter().export(plan).content)
    expected = paper_flops(**size, seq_len=128, masked=19, rows=16)
    assert found.flops == pytest.approx(expected, rel=0.05)
    assert sum(found.flops_by_group.values()) == found.flops
    assert found.single_precision == ()


def test_masked_positions_are_the_rules():
    """What a planned tokenizer cannot tell, a word's pieces, is not needed."""
    with plan_of(masking_unit="whole_word") as plan:
        expected = MaskingRule(
            rate=0.15, seq_len=128, vocab_size=9, mask_token_id=4, special_token_ids=(4,)
        )
        assert plan.num_masked_positions == expected.num_masked_positions + 4
    assert find_slice("v5e-4").num_replicas == 4
