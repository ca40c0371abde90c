"""`compile.py`."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import compile as compile_module
from clozeflow.errors import UserError
from pipelines.compilation import compiled
from pipelines.graph import HERE
from pipelines.pretrain import pretrain_pipeline

ROOT = Path(__file__).parents[2]


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
        (["--image", "gpu=x"], "there is no such role"),
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


def test_images_are_put_in_everywhere():
    from clozeflow.slices import find_slice
    from pipelines.tpu import vertex_variant

    images = {"cpu": "r/c@sha256:1", "tpu": "r/t@sha256:2"}
    plain = compiled(pretrain_pipeline(HERE), images)
    job = compiled(pretrain_pipeline(vertex_variant(find_slice("v5e-4"))), images)
    assert (plain.count("r/c@sha256:1"), plain.count("r/t@sha256:2")) == (5, 0)
    assert (job.count("r/c@sha256:1"), job.count("r/t@sha256:2")) == (4, 1)
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
