"""`compile.py`."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from kfp import components as kfp_components

import compile as compile_module
from clozeflow.errors import UserError
from components import images
from pipelines.compiled import compiled
from pipelines.graph import HERE
from pipelines.pretrain import pretrain_pipeline

ROOT = Path(__file__).parents[2]


def test_every_option_has_a_text_and_every_duration_its_unit():
    actions = compile_module._parser()._actions
    assert [action.dest for action in actions if not action.help] == []
    durations = [action for action in actions if action.dest.endswith("_seconds")]
    assert {action.dest for action in durations} == {"max_wait_seconds", "timeout_seconds"}
    assert all(action.help.startswith("seconds ") for action in durations)
    assert all(str(action.default) in action.help for action in durations)


def test_vertex_target_writes_one_document_with_the_slice(tmp_path):
    command = ["--target", "vertex", "--tpu", "v5e-4", "--output", str(tmp_path)]
    subprocess.run([sys.executable, "compile.py", *command], cwd=ROOT, check=True)
    (document,) = yaml.safe_load_all((tmp_path / "pretrain.yaml").read_text())
    pools = document["components"]["comp-train"]["inputDefinitions"]["parameters"][
        "worker_pool_specs"
    ]["defaultValue"]
    (pool,) = pools
    assert pool["machine_spec"] == {"machine_type": "ct5lp-hightpu-4t", "tpu_topology": "2x2"}
    assert pool["replica_count"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "vertex"], "needs a slice"),
        (["--tpu", "v5e-4"], "Add --target vertex"),
        (["--target", "vertex", "--tpu", "v5e-5"], "for example v5e-4"),
        (["--target", "kfp", "--tpu", "v5e-4", "--provisioning", "SPOT"], "--provisioning: says"),
        (["--target", "kfp", "--tpu", "v5e-4", "--notify", "a@b.example"], "the target is kfp"),
        (["--target", "kfp", "--tpu", "v5e-4", "--labels", "a=b"], "with --target vertex"),
        (["--service-account", "a@b.example"], "and the target is any"),
        (["--image", "gpu=x"], "error: --image: there is no such role (got gpu"),
        (["--image", "cpu"], "Write ROLE=IMAGE"),
        (["--images", "nowhere.json"], "cannot be read"),
    ],
)
def test_what_cannot_be_compiled_is_one_message(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.setattr(sys, "argv", ["compile.py", "--output", str(tmp_path), *arguments])
    with pytest.raises(SystemExit) as caught:
        compile_module.main()
    assert caught.value.code == 2
    errors = capsys.readouterr().err
    assert errors.startswith("error: ")
    assert message in errors
    assert list(tmp_path.iterdir()) == []


def test_a_role_of_a_file_that_there_is_not_is_told_of_the_file(tmp_path, monkeypatch, capsys):
    (tmp_path / "images.json").write_text('{"dataflow": "x"}')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["compile.py", "--images", "images.json"])
    with pytest.raises(SystemExit):
        compile_module.main()
    message = "error: --images images.json: there is no such role (got dataflow, expected cpu,"
    assert message in capsys.readouterr().err


def test_images_are_put_in_everywhere():
    from clozeflow.slices import find_slice
    from pipelines.tpu import vertex_variant

    chosen = {"cpu": "r/c@sha256:1", "tpu": "r/t@sha256:2", "preflight": "r/p@sha256:3"}
    plain = compiled(pretrain_pipeline(HERE), chosen)
    job = compiled(pretrain_pipeline(vertex_variant(find_slice("v5e-4"))), chosen)
    assert (plain.count("r/c@sha256:1"), plain.count("r/t@sha256:2")) == (7, 0)
    assert (job.count("r/c@sha256:1"), job.count("r/t@sha256:2")) == (6, 1)
    assert plain.count("r/p@sha256:3") == job.count("r/p@sha256:3") == 1
    assert "clozeflow:" not in plain + job


def test_pipeline_compiles_to_the_same_text_each_time():
    assert compiled(pretrain_pipeline()) == compiled(pretrain_pipeline())


def test_a_setting_of_nothing_is_refused():
    from pipelines.catalog import find_pipeline, find_preset

    with pytest.raises(UserError, match="no such pipeline"):
        find_pipeline("pertrain")
    with pytest.raises(UserError, match="there is no such file"):
        find_pipeline("nowhere.yaml")
    with pytest.raises(UserError, match="no such preset"):
        find_preset("pretrain", "demon")


@pytest.mark.parametrize("text", ["", "a: [b", "a: b", "- a", "word"])
def test_a_file_that_is_no_pipeline_is_refused(tmp_path, text):
    from pipelines.catalog import find_pipeline

    path = tmp_path / "pipeline.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match="is no compiled pipeline"):
        find_pipeline(str(path))


def test_kfp_target_asks_gke_for_the_chips():
    from clozeflow.slices import find_slice
    from pipelines.gke import gke_variant

    text = compiled(pretrain_pipeline(gke_variant(find_slice("v5e-4"))))
    pipeline, platform = yaml.safe_load_all(text)
    kubernetes = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    assert kubernetes["exec-train"]["nodeSelector"]["labels"] == {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
        "cloud.google.com/gke-tpu-topology": "2x2",
    }
    train = pipeline["deploymentSpec"]["executors"]["exec-train"]["container"]
    assert train["image"] == images.TPU
    assert train["resources"]["accelerator"]["resourceCount"] == "4"
    assert train["command"] == ["clozeflow-component"]
    assert kfp_components.load_component_from_text(text).name == "pretrain"


@pytest.mark.parametrize("name", ["v5e-16", "v3-8"])
def test_kfp_target_refuses_what_one_pod_cannot_have(name):
    from clozeflow.slices import find_slice
    from pipelines.gke import gke_variant

    with pytest.raises(UserError, match="one pod"):
        gke_variant(find_slice(name))
