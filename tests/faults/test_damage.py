"""Every file of every artifact damaged in every way: `verify` names it, no stage works on it."""

import dataclasses
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from clozeflow import artifacts
from clozeflow.errors import UserError
from clozeflow.registry import STAGES
from clozeflow.stages import run_stage
from clozeflow.verification import verify
from tests.faults import pipeline

READERS = {
    "corpus": ("tokenizer", "shard"),
    "tokenizer": ("shard", "train"),
    "shards": ("train", "evaluate"),
    "model": ("evaluate", "publish"),
    "evaluation": ("publish",),
    "publication": (),
    "published": ("evaluate",),
}
"""The stages that read an artifact."""
_SECONDS = 5


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _replace(path: Path) -> None:
    """As by the file of another run that happens to be as long."""
    content = path.read_bytes()
    path.write_bytes(content[1:] + bytes([content[0] ^ 0x55]))


DAMAGES: Mapping[str, Callable[[Path], None]] = {
    "cut": _cut,
    "emptied": lambda path: path.write_bytes(b""),
    "flipped": _flip,
    "removed": Path.unlink,
    "replaced": _replace,
}


def edits(value: dict) -> Iterator[tuple[str, dict]]:
    """A manifest with one thing in it changed, for each thing in it."""
    for path, leaf in _leaves(value):
        changed = json.loads(json.dumps(value))
        place = changed
        for key in path[:-1]:
            place = place[key]
        is_number = isinstance(leaf, (int, float)) and not isinstance(leaf, bool)
        place[path[-1]] = not leaf if isinstance(leaf, bool) else leaf + 1 if is_number else "x"
        yield "/".join(map(str, path)), changed


def _leaves(value: object, path: tuple = ()) -> Iterator[tuple[tuple, object]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, content in items:
        if isinstance(content, (dict, list)):
            yield from _leaves(content, (*path, key))
        else:
            yield (*path, key), content


@pytest.fixture(params=READERS)
def name(request):
    return request.param


@pytest.fixture
def damaged(calm, name, tmp_path):
    """A copy of an artifact, to be damaged."""
    return Path(shutil.copytree(Path(calm.pipeline.folder, name), tmp_path / "damaged"))


@pytest.fixture
def check(calm, name, damaged, tmp_path):
    """Sees to it that `verify` and every reader refuse the copy as it is now, and soon."""

    def check(what: str) -> None:
        with pytest.raises(UserError, match=str(damaged)):
            verify(str(damaged))
            pytest.fail(f"verify finds nothing: {name} {what}")
        for stage in READERS[name]:
            output = tmp_path / "output"
            start = time.monotonic()
            with pytest.raises(UserError, match=str(damaged)):
                read(calm, stage, name, damaged, output)
                pytest.fail(f"{stage} read it: {name} {what}")
            assert time.monotonic() - start < _SECONDS
            assert not output.exists(), "work was begun"

    return check


def read(calm, stage, name, folder, output):
    """Runs a stage on the folder in place of the calm run's."""
    inputs = {**calm.pipeline.inputs(stage), "model" if name == "published" else name: str(folder)}
    config = STAGES[stage].config(**calm.pipeline.settings(stage))
    run_stage(STAGES[stage], config, inputs=inputs, output=str(output))


def test_the_copy_is_whole(damaged):
    verify(str(damaged))


def test_every_file_in_every_way(damaged, check):
    manifest = artifacts.read_manifest(str(damaged))
    for entry in manifest.all_files():
        path = damaged / entry.path
        before = path.read_bytes()
        for what, damage in DAMAGES.items():
            damage(path)
            check(f"{entry.path} {what}")
            path.write_bytes(before)


def test_every_word_of_the_manifest(damaged, check):
    path = damaged / artifacts.MANIFEST
    before = path.read_bytes()
    value = json.loads(before)
    changed = list(edits(value))
    assert len(changed) > 20
    for what, manifest in changed:
        path.write_text(json.dumps(manifest))
        with pytest.raises(UserError, match=str(damaged)):
            verify(str(damaged))
            pytest.fail(f"verify finds nothing: {what}")
    for what, damage in DAMAGES.items():
        path.write_bytes(before)
        damage(path)
        check(f"manifest {what}")


@pytest.mark.parametrize("extra", ["notes.txt", "train/more.bin", "added_tokens.json"])
def test_a_file_that_nobody_listed(damaged, check, extra):
    (damaged / extra).parent.mkdir(exist_ok=True)
    (damaged / extra).write_text("{}")
    check(f"with {extra}")


def test_hidden_files_are_anybodys(damaged):
    (damaged / ".gitattributes").write_text("")
    (damaged / ".cache").mkdir()
    (damaged / ".cache" / "of-somebody").write_text("")
    verify(str(damaged))


@pytest.mark.parametrize("path", ["../x", "/etc/hostname", "train/../../x", "a\\..\\x", "./x", ""])
def test_names_that_lead_out_of_the_folder(calm, tmp_path, path):
    damaged = Path(shutil.copytree(Path(calm.pipeline.folder, "tokenizer"), tmp_path / "damaged"))
    (tmp_path / "x").write_text("not of the artifact")
    manifest = artifacts.read_manifest(str(damaged))
    entry = dataclasses.replace(manifest.files[0], path=path)
    artifacts.write_manifest(str(damaged), dataclasses.replace(manifest, files=(entry,)))
    with pytest.raises(UserError, match="no name of a file below a folder"):
        artifacts.read_manifest(str(damaged))
    assert pipeline.hashes(str(tmp_path))["x"]
