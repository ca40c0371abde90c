"""A model beside a baseline: paired differences, and thresholds against it."""

import subprocess
import sys

import pytest

from clozeflow.errors import UserError
from clozeflow.evaluation.gate import judge, parse_requirements
from tests.evaluation import fixtures


@pytest.fixture(scope="module")
def other(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("other") / "model"
    return fixtures.model_artifact(folder, tokenizer, fixtures.new_network(seed=1))


@pytest.fixture(scope="module")
def compared(model, other, shards, tmp_path_factory):
    output = tmp_path_factory.mktemp("compared") / "evaluation"
    manifest = fixtures.evaluate(
        output, model=model, shards=shards, baseline=other.uri, require=("loss<=baseline",)
    )
    return manifest, output


def test_differences_have_paired_intervals(compared, evaluation):
    results = fixtures.results_of(compared[1])
    own, baseline = results["figures"], results["baseline"]
    assert own == pytest.approx(fixtures.results_of(evaluation)["figures"], rel=1e-6, abs=1.1e-6)
    difference = own["loss"] - baseline["figures"]["loss"]
    assert baseline["differences"]["loss"] == pytest.approx(difference, abs=1e-6)
    low, high = baseline["difference_intervals"]["loss"]
    assert low < difference < high
    # The same questions are hard for both: pairing must make the interval narrower than apart.
    apart = results["intervals"]["loss"][1] - results["intervals"]["loss"][0]
    assert 0 < high - low < 3 * apart
    assert baseline["difference_intervals"]["unigram_loss"] == [0.0, 0.0]


def test_the_page_shows_the_comparison(compared):
    page = (compared[1] / "report.html").read_text()
    assert "Against the baseline model" in page
    assert "unigram_bits_per_byte" in page


def test_the_gate_compares_with_the_baseline(compared):
    manifest, output = compared
    results = fixtures.results_of(output)
    better = results["figures"]["loss"] <= results["baseline"]["figures"]["loss"]
    assert manifest.parameters["blessed"] is better
    assert "against" in results["reasons"][0]


def test_a_model_is_no_better_than_itself(model, shards, tmp_path):
    manifest = fixtures.evaluate(
        tmp_path / "e",
        model=model,
        shards=shards,
        baseline=model.uri,
        require=("loss<=baseline", "loss>=baseline"),
    )
    assert manifest.parameters["blessed"] is True
    baseline = fixtures.results_of(tmp_path / "e")["baseline"]
    assert set(baseline["differences"].values()) == {0.0}
    assert all(bounds == [0.0, 0.0] for bounds in baseline["difference_intervals"].values())
    assert [ref.name for ref in manifest.inputs] == ["model", "shards", "baseline"]


def test_a_threshold_against_no_baseline_is_refused_at_once(model, shards, tmp_path):
    with pytest.raises(UserError, match=r"--require.*none is given.*--baseline"):
        fixtures.evaluate(tmp_path / "e", model=model, shards=shards, require=("loss<baseline",))
    assert not (tmp_path / "e").exists()


@pytest.mark.parametrize("wrong", [("require", "loss<=baseline"), ("split", "test")])
def test_what_manifests_tell_is_said_before_tensorflow_is_imported(model, shards, tmp_path, wrong):
    name, value = wrong
    code = f"""
import sys
from clozeflow import cli
sys.argv = ["clozeflow", "evaluate", "--model", {model.uri!r}, "--shards", {shards.uri!r},
            "--output", {str(tmp_path / "e")!r}, "--{name}", {value!r}]
try:
    cli.main()
finally:
    print("tensorflow" in sys.modules)
"""
    found = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True
    )
    assert (found.returncode, found.stdout) == (2, "False\n"), found.stderr
    assert found.stderr.startswith("error: ")


def test_a_baseline_of_another_tokenizer_is_refused(model, shards, tokenizer, tmp_path):
    folder = fixtures.save_model(tmp_path / "m", tokenizer)
    baseline = fixtures.finish_model(folder, "sha256:0")
    with pytest.raises(UserError, match="another tokenizer than --baseline"):
        fixtures.evaluate(tmp_path / "e", model=model, shards=shards, baseline=baseline.uri)


def test_only_the_right_side_may_be_the_baseline():
    requirements = parse_requirements(["loss<=baseline"])
    assert judge(requirements, {"loss": 2.0}, {"loss": 2.5}).blessed
    assert not judge(requirements, {"loss": 2.6}, {"loss": 2.5}).blessed
    with pytest.raises(UserError, match="not measured"):
        parse_requirements(["baseline<=loss"])
