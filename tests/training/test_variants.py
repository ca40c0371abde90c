"""Ways to do the same step: accumulation, recomputation, XLA, bfloat16 and optimizers."""

from functools import cache

import numpy as np
import pytest
import tensorflow as tf
from transformers import RobertaConfig

from clozeflow.errors import UserError
from clozeflow.training.config import Compiler, Precision, Recompute
from clozeflow.training.devices import precision_policy
from clozeflow.training.masking import MaskingRule, mask_rows
from clozeflow.training.model import build_model
from clozeflow.training.optimizers import AdamW, Lamb, Lion, Optimizer
from clozeflow.training.recompute import recompute_layers
from clozeflow.training.step import StepMetrics, TrainStep
from tests.training.artifacts_of_tests import VOCAB_SIZE, make_rows

SEQ_LEN, NUM_ROWS, NUM_STEPS = 16, 8, 4
CONFIG = RobertaConfig(
    vocab_size=VOCAB_SIZE,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=SEQ_LEN + 2,
    type_vocab_size=1,
    pad_token_id=1,
)


def batches() -> tf.data.Iterator:
    rule = MaskingRule(
        rate=0.3,
        seq_len=SEQ_LEN,
        vocab_size=VOCAB_SIZE,
        mask_token_id=4,
        special_token_ids=(0, 1, 2, 3, 4),
    )
    rows = tf.constant(make_rows(NUM_ROWS * NUM_STEPS, SEQ_LEN))
    indices = tf.range(len(rows), dtype=tf.int64)
    masked = mask_rows(rows, tf.cast(rows != 1, tf.int32), indices, seed=0, rule=rule)
    return iter(tf.data.Dataset.from_tensor_slices(masked).batch(NUM_ROWS, drop_remainder=True))


def run(
    precision: Precision = Precision.FLOAT32, dropout_rate: float = 0.1, **settings
) -> list[StepMetrics]:
    strategy = tf.distribute.get_strategy()
    config = CONFIG.__class__.from_dict(
        CONFIG.to_dict()
        | {"hidden_dropout_prob": dropout_rate, "attention_probs_dropout_prob": dropout_rate}
    )
    with precision_policy(precision, strategy):
        model = build_model(config, seed=1)
        optimizer = AdamW(model.trainable_variables, weight_decay=0.01)
    step = TrainStep(
        strategy=strategy,
        model=model,
        optimizer=optimizer,
        schedule=lambda step: tf.constant(1e-3),
        max_gradient_norm=1.0,
        seed=0,
        **settings,
    )
    return step.run(batches(), first_step=0, num_steps=NUM_STEPS)


@cache
def plain() -> np.ndarray:
    return np.array(run())


def test_accumulation_in_parts_is_the_same_step() -> None:
    np.testing.assert_allclose(run(num_parts=4), plain(), rtol=1e-5)


def test_recomputed_layers_have_the_same_losses_and_gradients() -> None:
    np.testing.assert_allclose(run(recompute=Recompute.LAYERS), plain(), rtol=1e-5)


def test_compiled_by_xla_it_is_the_same_step() -> None:
    compiled = run(compiler=Compiler.XLA, dropout_rate=0.0)
    np.testing.assert_allclose(compiled, run(dropout_rate=0.0), rtol=1e-4)


def test_compiled_by_xla_dropout_works() -> None:
    losses = np.array(run(compiler=Compiler.XLA))[:, 0]
    np.testing.assert_allclose(losses, plain()[:, 0], rtol=0.01)
    assert (losses != np.array(run(compiler=Compiler.XLA, dropout_rate=0.0))[:, 0]).all()


def test_in_bfloat16_losses_are_near_and_weights_stay_float32() -> None:
    found = np.array(run(precision=Precision.BFLOAT16))
    np.testing.assert_allclose(found[:, 0], plain()[:, 0], rtol=0.01)
    assert (found[:, 0] != plain()[:, 0]).any()


def test_recomputation_is_refused_where_the_layers_are_not_known() -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.base_model_prefix = "transformer"
    with pytest.raises(UserError, match="--recompute"):
        recompute_layers(model, None)


class TestOptimizers:
    """Against the papers' formulas in numpy, over three steps."""

    RATE, DECAY = 0.01, 0.1

    def updated(self, kind: type[Optimizer]) -> list[np.ndarray]:
        matrix, vector = (tf.Variable(value) for value in self.start())
        optimizer = kind([matrix, vector], weight_decay=self.DECAY)
        for step in range(3):
            gradients = [tf.constant(value) for value in self.gradients(step)]
            optimizer.update(
                tf.distribute.get_strategy(),
                [matrix, vector],
                gradients,
                rate=tf.constant(self.RATE),
                step=tf.constant(step, tf.int64),
            )
        return [matrix.numpy(), vector.numpy()]

    def start(self) -> list[np.ndarray]:
        generator = np.random.default_rng(0)
        return [generator.normal(size=s).astype(np.float32) for s in ((3, 4), (4,))]

    def gradients(self, step: int) -> list[np.ndarray]:
        generator = np.random.default_rng(step + 1)
        return [generator.normal(size=s).astype(np.float32) for s in ((3, 4), (4,))]

    def expected(self, change) -> list[np.ndarray]:
        """`change(gradient, weight, state, step, decay)` gives what is subtracted."""
        results = []
        for index, weight in enumerate(self.start()):
            decay, state, new = (self.DECAY if weight.ndim > 1 else 0.0), {}, weight
            for step in range(3):
                new = new - change(self.gradients(step)[index], new, state, step, decay)
            results.append(new)
        return results

    def check(self, kind: type[Optimizer], change) -> None:
        for found, wanted in zip(self.updated(kind), self.expected(change), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)

    def adam_direction(self, gradient, state, step, beta_1, beta_2, epsilon) -> np.ndarray:
        state["m"] = beta_1 * state.get("m", 0) + (1 - beta_1) * gradient
        state["v"] = beta_2 * state.get("v", 0) + (1 - beta_2) * gradient**2
        mean = state["m"] / (1 - beta_1 ** (step + 1))
        return mean / (np.sqrt(state["v"] / (1 - beta_2 ** (step + 1))) + epsilon)

    def test_adamw(self) -> None:
        def change(gradient, weight, state, step, decay):
            direction = self.adam_direction(gradient, state, step, 0.9, 0.98, 1e-6)
            # the decayed weight is what Adam's step starts from
            return self.RATE * (direction + decay * weight)

        self.check(AdamW, change)

    def test_lamb(self) -> None:
        def change(gradient, weight, state, step, decay):
            direction = self.adam_direction(gradient, state, step, 0.9, 0.999, 1e-6)
            direction = direction + decay * weight
            if weight.ndim > 1:
                direction *= np.linalg.norm(weight) / np.linalg.norm(direction)
            return self.RATE * direction

        self.check(Lamb, change)

    def test_lion(self) -> None:
        def change(gradient, weight, state, step, decay):
            momentum = state.get("m", np.zeros_like(weight))
            state["m"] = 0.99 * momentum + 0.01 * gradient
            return self.RATE * (np.sign(0.9 * momentum + 0.1 * gradient) + decay * weight)

        self.check(Lion, change)
