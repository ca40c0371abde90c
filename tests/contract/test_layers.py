"""The arrows: compile.py -> pipelines -> components -> (an image runs) src/clozeflow."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UPPER = (
    "kfp",
    "google.cloud",
    "google_cloud_pipeline_components",
    "components",
    "pipelines",
    "compile",
)
HEAVY = ("tensorflow", "tf_keras", "keras", "transformers", "tokenizers", "sentencepiece", "jax")
LAYERS = [
    ("src", UPPER),
    (
        "components",
        (*HEAVY, "pipelines", "compile", "google.cloud", "google_cloud_pipeline_components"),
    ),
    ("pipelines", (*HEAVY, "compile")),
    ("compile.py", HEAVY),
]


def imported_modules(source: str) -> set[str]:
    """Every module that a source file imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return found


def forbidden(source: str, names: tuple[str, ...]) -> set[str]:
    modules = imported_modules(source)
    return {m for m in modules if any(m == name or m.startswith(name + ".") for name in names)}


@pytest.mark.parametrize(("layer", "names"), LAYERS)
def test_no_layer_imports_what_is_above_it(layer, names):
    path = ROOT / layer
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    assert files
    offences = {
        str(file.relative_to(ROOT)): modules
        for file in files
        if (modules := forbidden(file.read_text(), names))
    }
    assert offences == {}


def test_an_import_inside_a_function_is_seen():
    assert forbidden("def f():\n    from kfp.dsl import x", UPPER) == {"kfp.dsl"}
    assert forbidden("import tensorflow.io as t", HEAVY) == {"tensorflow.io"}


def test_interfaces_load_without_the_stages_libraries():
    code = (
        "import sys, pipelines.catalog, pipelines.local, pipelines.lineage\n"
        f"sys.exit(str([m for m in {HEAVY!r} if m in sys.modules] or ''))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.stderr.strip() == ""
