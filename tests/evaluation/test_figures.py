"""What known models score, and how slices go together.

That each figure is what it says is in test_recomputed.py.
"""

import numpy as np
import pytest

from clozeflow.evaluation.figures import COLUMNS, figures_of
from tests.evaluation import fixtures


def train_tokens(shards):
    tokens = fixtures.rows(shards, "train")["input_ids"].ravel()
    return tokens[tokens > 4]


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


def test_a_model_that_knows_only_frequencies_scores_like_the_guesses(shards, tokenizer, tmp_path):
    model = fixtures.model_artifact(tmp_path / "model", tokenizer, unigram_network(shards))
    metrics = fixtures.evaluate(tmp_path / "e", model=model, shards=shards).metrics
    assert metrics["accuracy_ratio"] == 1.0
    assert metrics["masked_accuracy"] == metrics["most_frequent_token_accuracy"] > 0.02
    assert metrics["loss"] == pytest.approx(metrics["unigram_loss"], abs=0.2)


def test_slices_are_divisions_of_the_whole(evaluation):
    results = fixtures.results_of(evaluation)
    names = [slicing["name"] for slicing in results["slices"]]
    assert len(names) == len(set(names)) == 7
    for slicing in results["slices"]:
        groups = slicing["groups"]
        sizes = [group["num_questions"] for group in groups]
        assert sum(sizes) == results["num_questions"]
        for name in ("loss", "masked_accuracy", "unigram_loss"):
            mean = np.average([group[name] for group in groups], weights=sizes)
            assert mean == pytest.approx(results["figures"][name], abs=2e-6)


def test_rarer_tokens_are_in_rarer_slices(evaluation):
    slices = fixtures.results_of(evaluation)["slices"]
    (by_frequency,) = [s["groups"] for s in slices if s["name"].startswith("token frequency")]
    losses = [group["unigram_loss"] for group in by_frequency]
    assert len(losses) >= 3
    assert losses == sorted(losses, reverse=True)


def test_a_model_that_learned_nothing_is_no_better_than_the_guesses(evaluation):
    figures = fixtures.results_of(evaluation)["figures"]
    assert figures["loss"] > figures["unigram_loss"]
    assert figures["masked_accuracy"] <= figures["most_frequent_token_accuracy"]
