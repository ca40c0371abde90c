"""Every figure computed again from raw logits in plain NumPy, and what known models score."""

import json
import math

import numpy as np
import pytest

from clozeflow.evaluation.config import Shown
from clozeflow.evaluation.figures import COLUMNS, figures_of
from clozeflow.evaluation.questions import make_questions
from clozeflow.evaluation.resampling import row_weights
from tests.evaluation import fixtures


def asked(shards, opened):
    """The questions of the validation split, all at once, and the whole model's logits."""
    batch = fixtures.rows(shards, "validation")
    questions = make_questions(batch, rule=fixtures.rule_of(opened, Shown.TRAINING), seed=0)
    output = opened.network(questions.input_ids, attention_mask=questions.attention_mask)
    logits = output.logits.numpy().astype(np.float64)
    return questions, logits[questions.batch_index, questions.positions]


def train_tokens(shards):
    tokens = fixtures.rows(shards, "train")["input_ids"].ravel()
    return tokens[tokens > 4]


def token_bytes(tokenizer, ids):
    return sum(
        len(name.replace("▁", " ").encode()) for name in tokenizer.convert_ids_to_tokens(ids)
    )


def test_every_figure_from_raw_logits(evaluation, shards, opened):
    questions, logits = asked(shards, opened)
    labels = questions.labels
    true_logits = logits[np.arange(len(labels)), labels]
    each = np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1)) + logits.max(1)
    each -= true_logits
    nats = each.sum()
    is_mask = questions.shown == opened.mask_token_id
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
        "mask_loss": each[is_mask].mean(),
        "mask_accuracy": (best[:, 0] == labels)[is_mask].mean(),
        "bits_per_byte": nats / math.log(2) / num_bytes,
        "most_frequent_token_accuracy": most_frequent,
        "accuracy_ratio": (best[:, 0] == labels).mean() / most_frequent,
        "unigram_loss": -np.log(unigram[labels]).mean(),
        "unigram_bits_per_byte": -np.log2(unigram[labels]).sum() / num_bytes,
    }
    figures = fixtures.results_of(evaluation)["figures"]
    figures.pop("calibration_error")  # see below
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


def test_a_model_that_knows_only_frequencies_scores_like_the_guesses(shards, tokenizer, tmp_path):
    model = fixtures.model_artifact(tmp_path / "model", tokenizer, unigram_network(shards))
    metrics = fixtures.evaluate(tmp_path / "e", model=model, shards=shards).metrics
    assert metrics["accuracy_ratio"] == 1.0
    assert metrics["masked_accuracy"] == metrics["most_frequent_token_accuracy"] > 0.02
    assert metrics["loss"] == pytest.approx(metrics["unigram_loss"], abs=0.2)


def test_slices_are_divisions_of_the_whole(evaluation):
    results = fixtures.results_of(evaluation)
    names = [slicing["name"] for slicing in results["slices"]]
    assert len(names) == len(set(names)) == 6
    for slicing in results["slices"]:
        groups = slicing["groups"]
        sizes = [group["num_questions"] for group in groups]
        assert sum(sizes) == results["num_questions"]
        for name in ("loss", "masked_accuracy", "unigram_loss"):
            mean = np.average([group[name] for group in groups], weights=sizes)
            assert mean == pytest.approx(results["figures"][name], abs=2e-6)


def test_rarer_tokens_are_in_rarer_slices(evaluation):
    by_frequency = fixtures.results_of(evaluation)["slices"][1]["groups"]
    losses = [group["unigram_loss"] for group in by_frequency]
    assert len(losses) >= 3
    assert losses == sorted(losses, reverse=True)


def test_one_slice_computed_again(evaluation, shards, opened):
    questions, logits = asked(shards, opened)
    labels = questions.labels
    starts = np.array(
        [name.startswith("▁") for name in opened.tokenizer.convert_ids_to_tokens(labels)]
    )
    nats = np.log(np.exp(logits).sum(1)) - logits[np.arange(len(labels)), labels]
    words = fixtures.results_of(evaluation)["slices"][2]["groups"]
    assert [group["group"] for group in words] == ["begins a word", "inside a word"]
    assert words[0]["num_questions"] == starts.sum()
    assert words[0]["loss"] == pytest.approx(nats[starts].mean(), abs=1e-5)


def expected_groups(questions, shards, opened):
    """The group of each question, by the name of the slicing: from the tokens alone."""
    labels, shown = questions.labels, questions.shown
    names = opened.tokenizer.convert_ids_to_tokens(labels)
    counts = np.bincount(train_tokens(shards), minlength=800)
    per_million = counts[labels] / counts.sum() * 1e6
    lengths = questions.attention_mask.sum(1)[questions.batch_index]
    sizes = np.array([len(name.removeprefix("▁").encode()) for name in names])
    return {
        "shown": np.where(shown == opened.mask_token_id, 0, np.where(shown == labels, 2, 1)),
        "token frequency": np.where(
            counts[labels] == 0,
            0,
            1 + np.searchsorted((10, 100, 1000, 10000), per_million, "right"),
        ),
        "word start": np.array([0 if name.startswith("▁") else 1 for name in names]),
        "bytes in the token": np.searchsorted((2, 4, 7), sizes, "right"),
        "position": questions.positions // (fixtures.SEQ_LEN // 4),
        "length": (lengths - 1) // (fixtures.SEQ_LEN // 4),
    }


def test_every_slice_computed_again(evaluation, shards, opened):
    questions, logits = asked(shards, opened)
    labels = questions.labels
    nats = np.log(np.exp(logits).sum(1)) - logits[np.arange(len(labels)), labels]
    is_right = logits.argmax(1) == labels
    found = fixtures.results_of(evaluation)["slices"]
    for name, groups in expected_groups(questions, shards, opened).items():
        (slicing,) = [s for s in found if s["name"].startswith(name)]
        assert len(slicing["groups"]) == len(np.unique(groups))
        for group, index in zip(slicing["groups"], np.unique(groups), strict=True):
            inside = groups == index
            assert group["num_questions"] == inside.sum()
            assert group["loss"] == pytest.approx(nats[inside].mean(), abs=1e-5)
            assert group["masked_accuracy"] == pytest.approx(is_right[inside].mean(), abs=1e-6)


def test_intervals_computed_again(evaluation, shards, opened):
    questions, logits = asked(shards, opened)
    labels = questions.labels
    nats = np.log(np.exp(logits).sum(1)) - logits[np.arange(len(labels)), labels]
    best = np.argsort(-logits, axis=1, kind="stable")[:, :10]
    is_among_best = (best == labels[:, None]).any(1)
    weights = row_weights(questions.row_numbers)[questions.batch_index]  # [N, R]
    intervals = fixtures.results_of(evaluation)["intervals"]
    for name, values in (("loss", nats), ("masked_accuracy_top10", is_among_best)):
        means = (weights * values[:, None]).sum(0) / weights.sum(0)
        expected = np.quantile(means, (0.025, 0.975))
        assert intervals[name] == pytest.approx(expected, abs=1e-5)
        assert expected[0] < values.mean() < expected[1]


def test_calibration_computed_again(evaluation, shards, opened):
    questions, logits = asked(shards, opened)
    labels = questions.labels
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    confidence, is_right = probabilities.max(1), probabilities.argmax(1) == labels
    results = fixtures.results_of(evaluation)
    gap = 0.0
    for bin_ in results["calibration"]:
        inside = (confidence >= bin_["from"]) & (confidence < bin_["to"])
        assert bin_["num_questions"] == inside.sum()
        assert bin_["accuracy"] == pytest.approx(is_right[inside].mean(), abs=1e-5)
        assert bin_["confidence"] == pytest.approx(confidence[inside].mean(), abs=1e-5)
        gap += abs(confidence[inside].sum() - is_right[inside].sum()) / len(labels)
    assert results["figures"]["calibration_error"] == pytest.approx(gap, abs=1e-5)


def test_confidence_of_right_and_wrong_answers_computed_again(evaluation, shards, opened):
    questions, logits = asked(shards, opened)
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    confidence, is_right = probabilities.max(1), probabilities.argmax(1) == questions.labels
    points = json.loads((evaluation / "classification.json").read_text())["confidenceMetrics"]
    assert points[-1]["confidenceThreshold"] == 0.0
    for point in points:
        is_sure = confidence >= point["confidenceThreshold"]
        recall = (is_sure & is_right).sum() / max(1, is_right.sum())
        assert point["recall"] == pytest.approx(recall, abs=1e-6)
        false = (is_sure & ~is_right).sum() / (~is_right).sum()
        assert point["falsePositiveRate"] == pytest.approx(false, abs=1e-6)


def test_mistakes_are_the_surest_wrong_answers(evaluation, shards, opened):
    questions, logits = asked(shards, opened)
    labels = questions.labels
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    wrong = probabilities.argmax(1) != labels
    expected = np.sort(probabilities.max(1)[wrong])[::-1][:12]
    mistakes = fixtures.results_of(evaluation)["mistakes"]
    assert [m["probability"] for m in mistakes] == pytest.approx(expected, abs=1e-5)


def test_pseudo_likelihood_computed_again(evaluation, shards, opened):
    found = fixtures.results_of(evaluation)["pseudo_likelihood"]
    rows = fixtures.rows(shards, "validation")["input_ids"]
    nats, num_bytes, num_questions = 0.0, 0, 0
    first_file = shards.manifest.splits["validation"].files[0].counts["num_examples"]
    for row in rows[np.arange(found["num_examples"]) * first_file // found["num_examples"]]:
        places = np.flatnonzero(row > 4)
        copies = np.repeat(row[None], len(places), axis=0)
        copies[np.arange(len(places)), places] = opened.mask_token_id
        output = opened.network(copies, attention_mask=(copies != 1).astype(np.int32))
        logits = output.logits.numpy()[np.arange(len(places)), places].astype(np.float64)
        nats += (np.log(np.exp(logits).sum(1)) - logits[np.arange(len(places)), row[places]]).sum()
        num_bytes += token_bytes(opened.tokenizer, row[places])
        num_questions += len(places)
    assert found["num_questions"] == num_questions > 500
    assert found["bits_per_byte"] == pytest.approx(nats / math.log(2) / num_bytes, rel=1e-5)


def test_neighbours_are_by_cosine(evaluation, opened):
    vectors = opened.network.get_input_embeddings().weight.numpy().astype(np.float64)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for word in fixtures.results_of(evaluation)["neighbours"]:
        own = opened.tokenizer.convert_tokens_to_ids(f"▁{word['word']}")
        cosines = np.delete(units @ units[own], own)
        found = [neighbour["cosine"] for neighbour in word["neighbours"]]
        assert found == sorted(found, reverse=True)
        assert all(np.abs(cosines - cosine).min() < 1e-4 for cosine in found)
        assert found[0] <= cosines.max() + 1e-4


def test_a_model_that_learned_nothing_is_no_better_than_the_guesses(evaluation):
    figures = fixtures.results_of(evaluation)["figures"]
    assert figures["loss"] > figures["unigram_loss"]
    assert figures["masked_accuracy"] <= figures["most_frequent_token_accuracy"]
