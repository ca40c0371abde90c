"""With the TPU's own compiler (`make preflight-env`), which CI does not have."""

import os

import pytest

import clozeflow.training  # noqa: F401  (before TensorFlow)
from clozeflow.preflight import module
from clozeflow.preflight.compilation import Status, TpuCompiler, find_python
from clozeflow.preflight.memory import Verdict
from clozeflow.preflight.program import summarize
from clozeflow.preflight.stage import find_answer
from clozeflow.preflight.topologies import topology_of
from clozeflow.slices import find_slice
from clozeflow.training import build, devices, hlo
from clozeflow.training.step import loss_sums
from tests.preflight.plans import plan_of
from tests.preflight.test_step import BASE, TINY, paper_flops

pytestmark = pytest.mark.skipif(
    find_python() is None, reason="no preflight environment: make preflight-env"
)


def test_tiny_is_preflighted_within_a_minute():
    from clozeflow.preflight.config import PreflightConfig

    before = os.times()
    config = PreflightConfig(tpu="v5e-4", preset="tiny", per_replica_batch_size=16)
    answer = find_answer(config, {})
    assert answer.verdict is Verdict.FITS
    summary = answer.trial.summary
    assert summary.loops == ()
    assert summary.all_reduce_bytes == pytest.approx(
        4 * answer.trial.module.num_parameters, rel=0.01
    )
    assert all(summary.cycles[name] > 0 for name in ("attention", "feed-forward", "head"))
    assert summary.cycles["other"] < 0.05 * summary.total_cycles
    expected = paper_flops(**TINY, seq_len=128, masked=19, rows=16)
    assert answer.products.flops == pytest.approx(expected, rel=0.05)
    # Of processors, as other tests may run beside this one.
    assert sum(os.times()[:4]) - sum(before[:4]) < 60


@pytest.mark.slow
def test_compiler_counts_the_operations_of_base_as_paper_does():
    with plan_of(preset="base", vocab_size=50265, per_replica_batch_size=64) as plan:
        answer = find_answer(plan.config, {})
    expected = paper_flops(**BASE, seq_len=128, masked=19, rows=64)
    assert answer.trial.compilation.figures["flops"] == pytest.approx(expected, rel=0.05)
    assert answer.verdict is Verdict.FITS


@pytest.mark.slow
def test_a_batch_that_does_not_fit_is_told_with_what_does():
    with plan_of(preset="base", vocab_size=50265, seq_len=512, per_replica_batch_size=256) as plan:
        answer = find_answer(plan.config, {})
    assert answer.verdict is Verdict.DOES_NOT_FIT
    assert answer.proposals[0].what == "the largest batch that fits"
    assert 64 <= answer.proposals[0].trial.plan.num_rows < 128


def test_a_serial_loop_is_found_and_named():
    """Embedding gradients left sparse, with the optimizer of Keras: rows are sought one by one."""
    import tensorflow as tf
    import tf_keras

    with plan_of(tpu="v5e-1", per_replica_batch_size=8, seq_len=32, vocab_size=512) as plan:
        config = devices.on_tpu(plan.config.training())
        step = build.step_for_rows(config, plan.tokenizer, tf.distribute.get_strategy(), seq_len=32)
        specs = hlo.batch_specs(
            num_rows=8, seq_len=32, num_masked_positions=plan.num_masked_positions
        )
    variables = step.model.trainable_variables
    optimizer = tf_keras.optimizers.AdamW(1e-3, jit_compile=False)
    optimizer.build(variables)
    names = sorted(specs)

    @tf.function(jit_compile=True, autograph=False)
    def sparse_step(*values):
        batch = dict(zip(names, values, strict=True))
        with tf.GradientTape() as tape:
            loss = loss_sums(step.model, batch, training=False, kernels=step.kernels)[0]
        gradients = tape.gradient(loss, variables)
        assert any(isinstance(gradient, tf.IndexedSlices) for gradient in gradients)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    content = sparse_step.experimental_get_compiler_ir(*(specs[name] for name in names))(
        stage="hlo_serialized"
    )
    compiler = TpuCompiler.find(time_limit_seconds=300)
    compiled = compiler.compile(
        content,
        fingerprint=module.fingerprint(content),
        topology=topology_of(find_slice("v5e-1")),
    )
    assert compiled.status is Status.COMPILED
    loops = summarize(compiled.text).loops
    assert [loop.num_turns for loop in loops if "Unique" in loop.name] == [8 * 32, 8 * 32]
