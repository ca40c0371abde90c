"""The evaluate stage as a whole: what it writes, what changes nothing, what it refuses."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from clozeflow.errors import UserError
from clozeflow.evaluation import likelihood
from clozeflow.evaluation.gate import FIGURES
from tests.evaluation import fixtures


def test_it_writes_figures_and_a_page_that_shows_them(evaluation):
    results = fixtures.results_of(evaluation)
    page = (evaluation / "report.html").read_text()
    assert results["num_questions"] > 200
    assert page.count("<svg") == 3
    assert results["most_frequent_token"] in page
    assert "http-equiv" not in page and "<script" not in page
    for prompt in results["prompts"]:
        assert prompt["true_word"] in page
        assert len(prompt["answers"]) == 5
    assert len(results["prompts"]) == 8


@pytest.mark.parametrize("batch_size", [1, 64])
def test_the_batch_size_changes_nothing(
    evaluation, model, shards, tmp_path, batch_size, monkeypatch
):
    is_single = batch_size == 1
    if is_single:  # a thousand questions one at a time take long
        monkeypatch.setattr(likelihood, "MAX_QUESTIONS", 32)
    fixtures.evaluate(tmp_path / "e", model=model, shards=shards, batch_size=batch_size)
    again, before = fixtures.results_of(tmp_path / "e"), fixtures.results_of(evaluation)
    compared = set(FIGURES) - ({"pseudo_bits_per_byte"} if is_single else set())
    for name in compared:
        expected = pytest.approx(before["figures"][name], rel=1e-6, abs=1.1e-6)
        assert again["figures"][name] == expected, name
    assert again["num_questions"] == before["num_questions"]


def test_a_second_run_gives_the_same_digits(evaluation, model, shards, tmp_path):
    manifest = fixtures.evaluate(tmp_path / "e", model=model, shards=shards, batch_size=7)
    for name in ("evaluation.json", "report.html"):
        assert (tmp_path / "e" / name).read_bytes() == (evaluation / name).read_bytes()
    assert (
        manifest.fingerprint
        == json.loads((evaluation / "manifest.json").read_text())["fingerprint"]
    )


def test_the_gate_is_a_parameter_with_its_reasons(model, shards, tmp_path):
    require = ("loss<=100", "loss<=0.01")
    manifest = fixtures.evaluate(tmp_path / "e", model=model, shards=shards, require=require)
    assert manifest.parameters == {"blessed": False}
    assert "loss<=0.01: not met" in manifest.properties["verdict"]
    assert fixtures.results_of(tmp_path / "e")["reasons"][0].startswith("loss<=100: met")
    assert "Not blessed" in (tmp_path / "e" / "report.html").read_text()


def test_a_model_without_a_training_log_answers_given_prompts(shards, tokenizer, tmp_path):
    folder = fixtures.save_model(tmp_path / "model", tokenizer)
    model = fixtures.finish_model(folder, tokenizer.manifest.fingerprint)
    prompts = ("The <mask> of the United States", "We [MASK] the <mask>")
    fixtures.evaluate(tmp_path / "e", model=model, shards=shards, prompts=prompts, top_k=3)
    assert "no training.jsonl" in (tmp_path / "e" / "report.html").read_text()
    found = fixtures.results_of(tmp_path / "e")["prompts"]
    assert [prompt["text"] for prompt in found] == list(prompts)
    assert [len(prompt["answers"]) for prompt in found] == [3, 6]


def test_a_prompt_without_a_mask_is_refused_at_once(model, shards, tmp_path):
    with pytest.raises(UserError, match=r"--prompts.*<mask>"):
        fixtures.evaluate(tmp_path / "e", model=model, shards=shards, prompts=("no mask",))


def test_more_answers_than_tokens_are_refused_at_once(model, shards, tmp_path):
    with pytest.raises(UserError, match=r"--top-k: .*got 801, expected 1 to 800"):
        fixtures.evaluate(tmp_path / "e", model=model, shards=shards, top_k=801)
    assert not (tmp_path / "e").exists()


def test_another_tokenizer_is_refused(shards, tokenizer, tmp_path):
    model = fixtures.finish_model(fixtures.save_model(tmp_path / "m", tokenizer), "sha256:0")
    with pytest.raises(UserError, match="another tokenizer"):
        fixtures.evaluate(tmp_path / "e", model=model, shards=shards)


def test_rows_longer_than_the_model_are_refused(shards, tokenizer, tmp_path):
    network = fixtures.new_network(max_position_embeddings=18)
    model = fixtures.model_artifact(tmp_path / "model", tokenizer, network)
    with pytest.raises(UserError, match=r"longer rows.*seq_len 32.*at most 16"):
        fixtures.evaluate(tmp_path / "e", model=model, shards=shards)


def test_a_split_that_is_not_there_is_refused(model, shards, tmp_path):
    with pytest.raises(UserError, match=r"'test'.*train, validation"):
        fixtures.evaluate(tmp_path / "e", model=model, shards=shards, split="test")


def test_a_model_that_diverged_is_no_result(shards, tokenizer, tmp_path):
    network = fixtures.new_network()
    variable = network.trainable_variables[0]
    variable.assign(np.full(variable.shape, np.nan, np.float32))
    model = fixtures.model_artifact(tmp_path / "model", tokenizer, network)
    with pytest.raises(UserError, match="not finite"):
        fixtures.evaluate(tmp_path / "e", model=model, shards=shards)


def test_shards_without_a_train_split_are_guessed_from_themselves(model, shards, tmp_path):
    shutil.copytree(shards.uri, tmp_path / "shards")
    only = fixtures.without_split(
        dataclasses.replace(shards, uri=str(tmp_path / "shards")), "train"
    )
    fixtures.evaluate(tmp_path / "e", model=model, shards=only)
    assert fixtures.results_of(tmp_path / "e")["guesses_counted_on"] == "validation"
