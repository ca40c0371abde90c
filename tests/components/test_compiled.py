"""The committed `component.yaml` files, as other pipelines load them."""

import re
from pathlib import Path

import pytest
from kfp import components as kfp_components

from pipelines.catalog import COMPONENTS
from pipelines.compilation import stale_files, write_components
from pipelines.compiled import compiled

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "components"


def test_committed_files_are_what_their_source_compiles_to():
    assert stale_files(ROOT) == []


def test_a_file_that_differs_is_named(tmp_path):
    write_components(tmp_path)
    path = tmp_path / "components" / "shard" / "component.yaml"
    path.write_text(path.read_text().replace("seq_len", "length"))
    assert stale_files(tmp_path) == [path]


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_file_loads_alone_and_is_typed_as_kfp_types(name):
    loaded = kfp_components.load_component_from_file(str(FOLDER / name / "component.yaml"))
    assert compiled(loaded) == compiled(COMPONENTS[name])
    outputs = loaded.component_spec.outputs
    artifacts = [o.type for o in outputs.values() if "@" in o.type]
    assert artifacts
    assert all(title.startswith("system.") for title in artifacts)


@pytest.mark.parametrize("name", COMPONENTS)
def test_source_is_an_interface_of_at_most_forty_lines_besides_its_settings(name):
    lines = (FOLDER / name / "component.py").read_text().splitlines()
    settings = [line for line in lines if re.fullmatch(r"    \w+: \w+ = .*,", line)]
    assert len(lines) - len(settings) <= 40
