"""The step computes what the whole model computes, and counts as it should."""

import numpy as np
import pytest
import tensorflow as tf
from transformers import (
    AlbertConfig,
    BertConfig,
    DistilBertConfig,
    PretrainedConfig,
    RobertaConfig,
    TFAutoModelForMaskedLM,
)

from clozeflow.training.dropout import StatelessDropout
from clozeflow.training.heads import masked_logits
from clozeflow.training.masking import MaskingRule, mask_rows
from clozeflow.training.step import loss_sums
from tests.training.artifacts_of_tests import VOCAB_SIZE, make_rows

SEQ_LEN, NUM_ROWS = 16, 6
SIZE = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 18,
    "pad_token_id": 1,
}
CONFIGS = {
    "roberta": RobertaConfig(**SIZE, type_vocab_size=1),
    "bert": BertConfig(**SIZE),
    "distilbert": DistilBertConfig(
        vocab_size=VOCAB_SIZE, dim=32, n_layers=2, n_heads=2, hidden_dim=64, pad_token_id=1
    ),
    "albert": AlbertConfig(  # by the general path; its layers share their weights
        **SIZE, embedding_size=16, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
    ),
}


def make_model(config: PretrainedConfig) -> tf.keras.Model:
    model = TFAutoModelForMaskedLM.from_config(config)
    model.build_in_name_scope()
    return model


@pytest.fixture(scope="module")
def batch() -> dict[str, tf.Tensor]:
    rows = tf.constant(make_rows(NUM_ROWS, SEQ_LEN))
    rule = MaskingRule(
        rate=0.3,
        seq_len=SEQ_LEN,
        vocab_size=VOCAB_SIZE,
        mask_token_id=4,
        special_token_ids=(0, 1, 2, 3, 4),
    )
    mask = tf.cast(rows != 1, tf.int32)
    return mask_rows(rows, mask, tf.range(NUM_ROWS, dtype=tf.int64), seed=0, rule=rule)


def stock_labels(batch: dict[str, tf.Tensor]) -> np.ndarray:
    """Labels as the stock model's loss wants them: -100 where nothing is asked."""
    labels = np.full((NUM_ROWS, SEQ_LEN), -100, np.int32)
    used = batch["masked_weights"].numpy() > 0
    rows = np.nonzero(used)[0]
    labels[rows, batch["masked_positions"].numpy()[used]] = batch["masked_labels"].numpy()[used]
    return labels


@pytest.mark.parametrize("kind", CONFIGS)
def test_scores_at_masked_positions_are_the_whole_models(
    kind: str, batch: dict[str, tf.Tensor]
) -> None:
    model = make_model(CONFIGS[kind])
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    whole = tf.gather(model(**inputs).logits, batch["masked_positions"], batch_dims=1)
    found = masked_logits(
        model, **inputs, masked_positions=batch["masked_positions"], training=False
    )
    np.testing.assert_allclose(found, whole, atol=1e-5)


@pytest.mark.parametrize("kind", CONFIGS)
def test_loss_and_gradients_are_those_of_the_stock_model(
    kind: str, batch: dict[str, tf.Tensor]
) -> None:
    model = make_model(CONFIGS[kind])
    variables = model.trainable_variables
    with tf.GradientTape() as tape:
        sums = loss_sums(model, batch, training=False)
        loss = sums[0] / sums[2]
    gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
    with tf.GradientTape() as tape:
        stock = model(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            labels=stock_labels(batch),
        ).loss
        stock = tf.reduce_mean(stock)
    stock_gradients = tape.gradient(stock, variables, unconnected_gradients="zero")
    assert abs(float(loss - stock)) < 1e-4
    for ours, theirs in zip(gradients, stock_gradients, strict=True):
        np.testing.assert_allclose(
            tf.convert_to_tensor(ours), tf.convert_to_tensor(theirs), atol=1e-5
        )


def test_masked_accuracy_counts_masked_tokens_alone(batch: dict[str, tf.Tensor]) -> None:
    model = make_model(CONFIGS["roberta"])
    _, num_correct, num_masked = loss_sums(model, batch, training=False).numpy()
    logits = model(batch["input_ids"], attention_mask=batch["attention_mask"]).logits.numpy()
    labels = stock_labels(batch)
    assert num_masked == (labels != -100).sum()
    assert num_correct == (logits.argmax(-1) == labels).sum()


class TestDropout:
    RATE = 0.25

    def make(self) -> tuple[StatelessDropout, list]:
        layers = [tf.keras.layers.Dropout(self.RATE) for _ in range(2)]
        model = tf.keras.Sequential(layers)
        return StatelessDropout(model, seed=3), layers

    def test_a_mask_is_a_function_of_step_and_call(self) -> None:
        dropout, (first, second) = self.make()
        inputs = tf.ones([8, 16, 12])

        def outputs(step: int) -> np.ndarray:
            dropout.start_step(tf.constant(step, tf.int64), first_row=0)
            layers = (first, first, second)
            return np.stack([layer(inputs, training=True).numpy() for layer in layers])

        np.testing.assert_array_equal(outputs(0), outputs(0))
        masks = [*outputs(0), *outputs(1)]
        assert all((a != b).any() for i, a in enumerate(masks) for b in masks[:i])

    def test_rate_and_scale(self) -> None:
        dropout, (layer, _) = self.make()
        dropout.start_step(tf.constant(0, tf.int64), first_row=0)
        output = layer(tf.ones([64, 100, 16]), training=True).numpy()
        sigma = np.sqrt(self.RATE * (1 - self.RATE) / output.size)
        assert abs((output == 0).mean() - self.RATE) < 3 * sigma
        np.testing.assert_allclose(output[output != 0], 1 / (1 - self.RATE), rtol=1e-6)

    @pytest.mark.parametrize("width", [12, 7])
    def test_replicas_draw_what_one_device_draws_for_their_rows(self, width: int) -> None:
        dropout, (layer, _) = self.make()
        step = tf.constant(5, tf.int64)
        dropout.start_step(step, first_row=0)
        whole = layer(tf.ones([8, 3, width]), training=True).numpy()
        dropout.start_step(step, first_row=4)
        part = layer(tf.ones([4, 3, width]), training=True).numpy()
        np.testing.assert_array_equal(part, whole[4:])

    def test_without_training_nothing_is_dropped(self) -> None:
        _, (layer, _) = self.make()
        np.testing.assert_array_equal(layer(tf.ones([2, 4]), training=False), 1)

    def test_every_dropout_layer_of_the_models_is_replaced(
        self, batch: dict[str, tf.Tensor]
    ) -> None:
        for kind, config in CONFIGS.items():
            model = make_model(config)
            dropout = StatelessDropout(model, seed=0)
            losses = []
            for step in (0, 0, 1):
                dropout.start_step(tf.constant(step, tf.int64), first_row=0)
                losses.append(float(loss_sums(model, batch, training=True)[0]))
            assert losses[0] == losses[1] != losses[2], kind
