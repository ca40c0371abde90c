"""Compiled pipelines do not drift: what changes in them is seen as a diff.

`UPDATE_GOLDEN=1 pytest tests/golden` writes the files anew.
"""

import json
import os
import re
from pathlib import Path

import pytest
from google.protobuf import json_format

from clozeflow.slices import SLICES, find_slice
from pipelines.catalog import PIPELINES
from pipelines.compiled import compiled
from pipelines.graph import HERE
from pipelines.tpu import vertex_variant
from tests.pipelines.rendering import custom_job, train_on

FOLDER = Path(__file__).parent


def check(name: str, text: str) -> None:
    path = FOLDER / name
    # Where others keep their images is none of our business.
    text = re.sub(r"image: \S+/(?=ml-pipeline/)", "image: ", text)
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"no {path.name}: run UPDATE_GOLDEN=1 pytest tests/golden"
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PIPELINES)
def test_pipeline_for_any_kfp(name):
    check(f"{name}.yaml", compiled(PIPELINES[name](HERE)))


def test_pretrain_on_vertex():
    variant = vertex_variant(find_slice("v5e-4"))
    check("pretrain-vertex-v5e-4.yaml", compiled(PIPELINES["pretrain"](variant)))


@pytest.mark.parametrize("name", SLICES)
def test_custom_job_of_every_slice(name):
    """The job that Vertex AI gets, as the backend renders it from the compiled component."""
    job = json_format.MessageToDict(custom_job(train_on(name))._pb)
    check(f"jobs/{name}.json", json.dumps(job, indent=1, sort_keys=True) + "\n")
