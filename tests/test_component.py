"""The container's entry point, fed with executor inputs as KFP writes them."""

import json
import sys

import pytest

from clozeflow import component
from clozeflow.errors import UserError
from tests.toy import toy_stage


def executor_input(folder, **parameters):
    def artifact(name, title):
        uri = str(folder / name)
        return {"artifacts": [{"name": name, "uri": uri, "type": {"schemaTitle": title}}]}

    return {
        "inputs": {"parameterValues": parameters},
        "outputs": {
            "outputFile": str(folder / "below" / "executor_output.json"),
            "artifacts": {
                "corpus": artifact("corpus", "system.Dataset"),
                "metrics": artifact("metrics", "system.Metrics"),
                "report": artifact("page.html", "system.HTML"),
            },
            "parameters": {"blessed": {"outputFile": str(folder / "blessed")}},
        },
    }


def test_executor_output_carries_metadata_figures_report_and_parameters(tmp_path):
    manifest = component.run_component(toy_stage(), executor_input(tmp_path, size=4.0))
    output = json.loads((tmp_path / "below" / "executor_output.json").read_text())
    (corpus,) = output["artifacts"]["corpus"]["artifacts"]
    assert corpus["name"] == "corpus"
    assert corpus["uri"] == str(tmp_path / "corpus")
    assert corpus["metadata"]["fingerprint"] == manifest.fingerprint
    assert corpus["metadata"]["size"] == 4
    assert output["artifacts"]["metrics"]["artifacts"][0]["metadata"] == {"mean": 0.5}
    assert (tmp_path / "page.html").read_text() == "<p>report</p>"
    assert output["parameterValues"] == {"blessed": True}


def test_only_declared_parameter_outputs_are_written(tmp_path):
    asked = executor_input(tmp_path)
    del asked["outputs"]["parameters"]
    component.run_component(toy_stage(), asked)
    output = json.loads((tmp_path / "below" / "executor_output.json").read_text())
    assert output["parameterValues"] == {}


def test_fields_of_a_custom_job_are_no_settings(tmp_path):
    job = {"project": "p", "worker_pool_specs": [{"replica_count": 1}], "labels": {}}
    manifest = component.run_component(toy_stage(), executor_input(tmp_path, size=4, **job))
    assert manifest.config == {"size": 4, "num_workers": 1}


def test_unknown_and_ill_typed_parameters_are_errors(tmp_path):
    with pytest.raises(UserError, match="no setting 'sise'"):
        component.run_component(toy_stage(), executor_input(tmp_path, sise=4))
    with pytest.raises(UserError, match="--size"):
        component.run_component(toy_stage(), executor_input(tmp_path, size="four"))
    assert not (tmp_path / "corpus").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "wants two arguments"),
        (["shard"], "wants two arguments"),
        (["shrad", "{}"], "no such stage"),
        (["shard", "{"], "is not KFP's"),
        (["shard", "[]"], "is not KFP's"),
        (["shard", '{"outputs": {}}'], "is not KFP's"),
        (["shard", '{"outputs": {"outputFile": "x", "artifacts": {}}}'], "names no artifact"),
    ],
)
def test_a_wrong_call_is_one_message(monkeypatch, arguments, message):
    monkeypatch.setattr(sys, "argv", ["clozeflow-component", *arguments])
    with pytest.raises(SystemExit, match=message):
        component.main()


def test_vertex_mount_paths_are_read_as_objects():
    assert component._location("/gcs/bucket/run/x") == "gs://bucket/run/x"
    assert component._location("/data/gcs/x") == "/data/gcs/x"


@pytest.mark.parametrize(
    "value",
    [
        {"inputs": None, "outputs": {"outputFile": "x", "artifacts": {}}},
        {"inputs": {"parameterValues": []}, "outputs": {"outputFile": "x", "artifacts": {}}},
        {"outputs": {"outputFile": 1, "artifacts": {}}},
        {"outputs": {"outputFile": "x", "artifacts": {"shards": {"artifacts": [{"name": "s"}]}}}},
        [],
    ],
)
def test_what_is_no_executor_input_is_said_in_words(value, monkeypatch):
    """Found by the fuzzer (`tests/faults/fuzz.py`)."""
    monkeypatch.setattr("sys.argv", ["clozeflow-component", "shard", json.dumps(value)])
    with pytest.raises(SystemExit, match="error: executor input"):
        component.main()
