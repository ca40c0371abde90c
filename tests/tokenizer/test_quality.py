"""The figures, the report and the gate."""

import json
from pathlib import Path

import pytest

from clozeflow import artifacts
from clozeflow.errors import UserError
from clozeflow.tokenizer import loading
from clozeflow.tokenizer.quality import measure
from clozeflow.tokenizer.special import SpecialIds
from tests.tokenizer import fixtures


def test_figures_are_those_of_the_text(unigram):
    tokenizer = loading.load(unigram.uri)
    texts = ["the state of the  union ", "the ☃ and the ☃☃", ""]
    quality = measure(tokenizer, texts, special=SpecialIds())
    encodings = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
    assert quality.num_tokens == sum(len(encoding.ids) for encoding in encodings)
    assert quality.num_unknown == 2
    assert quality.num_words == 5 + 5
    assert quality.num_bytes == len("the state of the union") + len("the ☃ and the ☃☃".encode())
    assert quality.unknown_characters == {"☃": 3}
    assert quality.character_coverage == pytest.approx(1 - 3 / (18 + 12))
    assert quality.num_round_trip_failures == 0
    assert quality.num_pieces_used == len({i for e in encodings for i in e.ids} - {3})
    assert quality.figures["unknown_rate"] == pytest.approx(2 / quality.num_tokens, abs=1e-6)


def test_a_text_that_decoding_does_not_restore_is_shown(unigram):
    tokenizer = loading.load(unigram.uri)
    tokenizer.decoder = None
    quality = measure(tokenizer, ["the state"], special=SpecialIds())
    assert quality.num_round_trip_failures == 1
    assert quality.failures[0].text == "the state"


def test_quality_json_and_report_hold_the_figures(unigram):
    quality = json.loads(Path(unigram.path("quality.json")).read_text())
    assert quality["split"] == "validation"
    assert quality["tokens_per_byte"] == unigram.manifest.metrics["tokens_per_byte"] > 0.1
    assert quality["tokenizer"]["trained_on_bytes"] > 10_000
    report = Path(unigram.path("report.html")).read_text()
    for text in ("Tokens per byte", "The longest", "Texts in pieces", "<svg"):
        assert text in report


def test_a_baseline_is_compared_with(unigram, corpus, tmp_path):
    artifact = fixtures.train(corpus, tmp_path / "out", vocab_size=900, baseline=unigram.uri)
    quality = json.loads(Path(artifact.path("quality.json")).read_text())
    baseline = unigram.manifest.metrics["tokens_per_byte"]
    assert quality["baseline"]["tokens_per_byte"] == baseline > quality["tokens_per_byte"]
    fewer = 1 - quality["tokens_per_byte"] / baseline
    assert f"needs {fewer:.1%} fewer tokens" in Path(artifact.path("report.html")).read_text()
    assert artifact.manifest.input("baseline").uri == unigram.uri


def test_too_much_unknown_fails_the_stage_and_leaves_the_report(tmp_path):
    corpus = fixtures.write_corpus(tmp_path / "corpus", [["some words"] * 9], ["漢字 and words"])
    with pytest.raises(UserError, match=r"report\.html.*too many tokens.*at most 0\.01"):
        fixtures.train(corpus, tmp_path / "out", max_unknown_rate=0.01)
    assert (tmp_path / "out/report.html").is_file()
    assert not artifacts.is_finished(str(tmp_path / "out"))


def test_without_a_validation_split_the_train_split_is_measured(tmp_path):
    corpus = fixtures.write_corpus(tmp_path / "corpus", [fixtures.speeches(1)])
    artifact = fixtures.train(corpus, tmp_path / "out")
    assert json.loads(Path(artifact.path("quality.json")).read_text())["split"] == "train"


def test_a_sample_is_stated_in_the_manifest(corpus, tmp_path):
    whole = artifacts.read_manifest(corpus).splits["train"].counts["text_bytes"]
    artifact = fixtures.train(corpus, tmp_path / "out", corpus_sample_bytes=whole // 2, seed=7)
    manifest = artifact.manifest
    assert manifest.shaping_config["seed"] == 7
    assert manifest.properties["trained_on_bytes"] < 0.8 * whole
    assert manifest.properties["trained_on_documents"] > 0
