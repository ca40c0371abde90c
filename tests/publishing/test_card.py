"""The model card: made from the manifests, with nothing of this machine in it."""

import dataclasses
import shutil

import yaml

from clozeflow.publishing.card import make_card
from clozeflow.publishing.config import PublishConfig


def card(model, evaluation, **settings):
    return make_card(PublishConfig(**settings), model, evaluation, name="me/model")


def section(text, title):
    """The rows of a section's tables, as (first cell, second cell)."""
    body = text.split(f"\n## {title}\n")[1].split("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in body.split("\n") if line.startswith("| ")]
    return {cells[0]: cells[1] for cells in lines}


def test_data_and_its_revision_come_from_the_chain(model, evaluation):
    found = section(card(model, evaluation), "Data")
    assert found["num documents"] == "25,329"
    assert found["hub"] == "hf:wikitext@b08601e#train"
    assert found["speeches"] == "a.txt"  # without the folders of this machine


def test_tokenizer_settings_and_figures_come_from_the_manifests(model, evaluation):
    text = card(model, evaluation)
    assert section(text, "Tokenizer")["vocab size"] == "8,192"
    assert section(text, "Training")["`preset`"] == "tiny"
    assert section(text, "Figures")["`masked_accuracy`"] == "0.4"
    assert "1,234 masked tokens of the validation split" in text
    assert "Blessed: masked_accuracy>=0.35: met (0.4)." in text
    assert "(plots/loss.png)" in text
    assert section(text, "Provenance")["tokenizer"] == f"`{model.manifest.inputs[0].fingerprint}`"


def test_cost_is_time_by_price(model, evaluation):
    found = section(card(model, evaluation, usd_per_hour=4.0), "Cost and time")
    assert found["hours of training, lost attempts left out"] == "1.5"
    assert found["cost in USD"] == "6"
    assert found["floating-point operations, about"] == "6e+07"
    assert "cost in USD" not in section(card(model, evaluation), "Cost and time")


def test_the_licence_is_to_be_filled_in_or_filled_in(model, evaluation):
    def front(text):
        return yaml.safe_load(text.split("---")[1])

    assert "license" not in front(card(model, evaluation))
    assert "# license: to be filled in" in card(model, evaluation)
    assert front(card(model, evaluation, license="apache-2.0"))["license"] == "apache-2.0"
    assert front(card(model, evaluation))["pipeline_tag"] == "fill-mask"


def test_it_is_used_in_five_lines(model, evaluation):
    code = card(model, evaluation).split("```python\n")[1].split("```")[0]
    lines = [line for line in code.split("\n") if line]
    assert len(lines) <= 5
    assert 'model="me/model"' in code
    compile(code, "card", "exec")


def test_it_is_still_made_when_the_corpus_is_gone(model, evaluation, tmp_path):
    shutil.rmtree(tmp_path / "corpus")
    text = card(model, evaluation)
    assert "no longer where it was" in text
    assert section(text, "Tokenizer")["vocab size"] == "8,192"
    assert "corpus" in section(text, "Provenance")


def test_a_model_that_is_not_blessed_says_so(model, evaluation):
    manifest = dataclasses.replace(evaluation.manifest, parameters={"blessed": False})
    text = card(model, dataclasses.replace(evaluation, manifest=manifest))
    assert "\nNot blessed: " in text
