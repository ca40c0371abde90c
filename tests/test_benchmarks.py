"""Programs that measure: where they are pointed at nothing, they say so at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def said(name, *arguments, folder):
    """The last words of a benchmark that has to fail."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / name), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    return done.stderr


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("evaluate_cost.py", ["nowhere", "nowhere"], "nowhere: is no folder of a model"),
        ("evaluate_cost.py", ["model", "nowhere"], "nowhere: is no folder of Shards"),
        ("shards_cost.py", ["nowhere.txt", "--work", "work"], "nowhere.txt: is no file with text"),
        ("corpus_cost.py", ["nowhere.txt", "--work", "work"], "nowhere.txt: is no file with text"),
        ("corpus_cost.py", ["empty.txt", "--work", "work"], "empty.txt: is no file with text"),
        ("predict_speed.py", ["nowhere"], "nowhere: is no folder of a model"),
        (
            "reader_speed.py",
            ["corpus"],
            "corpus: is no folder of Shards (with a manifest.json), bu",
        ),
    ],
)
def test_a_wrong_path_is_one_line(tmp_path, name, arguments, message):
    (tmp_path / "empty.txt").touch()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "manifest.json").write_text('{"type": "clozeflow.Corpus"}')
    (line,) = said(name, *arguments, folder=tmp_path).splitlines()
    assert line.startswith(message)
    assert not (tmp_path / "work").exists()
