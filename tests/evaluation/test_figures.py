"""Every figure computed again from raw logits in plain NumPy, and what known models score."""

import math

import numpy as np
import pytest

from clozeflow.evaluation.figures import COLUMNS, figures_of
from clozeflow.evaluation.questions import cloze_rule, make_questions
from tests.evaluation import fixtures


def asked(shards, opened):
    """The questions of the validation split, all at once, and the whole model's logits."""
    batch = fixtures.rows(shards, "validation")
    rule = cloze_rule(opened.tokenizer, masking_rate=0.15, seq_len=fixtures.SEQ_LEN)
    questions = make_questions(batch, rule=rule, seed=0)
    output = opened.network(questions.input_ids, attention_mask=questions.attention_mask)
    logits = output.logits.numpy().astype(np.float64)
    return questions.labels, logits[questions.batch_index, questions.positions]


def train_tokens(shards):
    tokens = fixtures.rows(shards, "train")["input_ids"].ravel()
    return tokens[tokens > 4]


def token_bytes(tokenizer, ids):
    return sum(
        len(name.replace("▁", " ").encode()) for name in tokenizer.convert_ids_to_tokens(ids)
    )


def test_every_figure_from_raw_logits(evaluation, shards, opened):
    labels, logits = asked(shards, opened)
    true_logits = logits[np.arange(len(labels)), labels]
    nats = np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1)) + logits.max(1)
    nats = (nats - true_logits).sum()
    best = np.argsort(-logits, axis=1, kind="stable")
    counts = np.bincount(train_tokens(shards), minlength=800)
    unigram = (counts + 1) / (counts.sum() + 795)
    num_bytes = token_bytes(opened.tokenizer, labels)
    most_frequent = (labels == counts.argmax()).mean()
    expected = {
        "loss": nats / len(labels),
        "perplexity": math.exp(nats / len(labels)),
        "masked_accuracy": (best[:, 0] == labels).mean(),
        "masked_accuracy_top5": (best[:, :5] == labels[:, None]).any(1).mean(),
        "masked_accuracy_top10": (best[:, :10] == labels[:, None]).any(1).mean(),
        "bits_per_byte": nats / math.log(2) / num_bytes,
        "most_frequent_token_accuracy": most_frequent,
        "accuracy_ratio": (best[:, 0] == labels).mean() / most_frequent,
        "unigram_loss": -np.log(unigram[labels]).mean(),
        "unigram_bits_per_byte": -np.log2(unigram[labels]).sum() / num_bytes,
    }
    figures = fixtures.results_of(evaluation)["figures"]
    assert figures == pytest.approx(expected, rel=2e-6, abs=2e-6)


def test_figures_that_are_not_defined_are_left_out():
    sums = dict.fromkeys(COLUMNS, 0.0) | {"questions": 4.0, "nats": 8.0, "unigram_nats": 12.0}
    figures = figures_of(np.array(list(sums.values())))
    assert figures["loss"] == 2.0
    assert "accuracy_ratio" not in figures
    assert "bits_per_byte" not in figures
    assert figures_of(np.zeros(len(COLUMNS))) == {}


def unigram_network(shards):
    """A model that knows the unigram distribution and nothing else."""
    network = fixtures.new_network()
    counts = np.bincount(train_tokens(shards), minlength=fixtures.MODEL_VOCAB_SIZE)
    probability = np.where(counts > 0, counts, 1e-4)
    for variable in network.trainable_variables:
        if "lm_head/layer_norm" in variable.name:
            variable.assign(variable * 0.0)
        elif "lm_head/bias" in variable.name:
            variable.assign(np.log(probability / probability.sum()))
    return network


def test_a_model_that_knows_only_frequencies_scores_like_the_guesses(shards, tmp_path):
    model = fixtures.model_artifact(tmp_path / "model", shards, unigram_network(shards))
    metrics = fixtures.evaluate(tmp_path / "e", model=model, shards=shards).metrics
    assert metrics["accuracy_ratio"] == 1.0
    assert metrics["masked_accuracy"] == metrics["most_frequent_token_accuracy"] > 0.02
    assert metrics["loss"] == pytest.approx(metrics["unigram_loss"], abs=0.2)
