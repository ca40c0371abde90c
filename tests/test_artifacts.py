"""Manifests: round trip, fingerprints, and every kind of damage found."""

import dataclasses
import json

import pytest

from clozeflow import artifacts
from clozeflow.artifacts import ArtifactType, FileEntry, InputRef, Manifest, Split
from clozeflow.errors import UserError
from clozeflow.verification import verify


@pytest.fixture
def folder(tmp_path):
    """A finished artifact of two shards, a plot, and one input."""
    (tmp_path / "train").mkdir()
    for name, content in (("train/a", b"first"), ("train/b", b"second!"), ("plot.svg", b"<svg/>")):
        (tmp_path / name).write_bytes(content)
    entries = [
        artifacts.file_entry(str(tmp_path), name, counts={"num_examples": count})
        for name, count in (("train/a", 3), ("train/b", 4))
    ]
    manifest = Manifest(
        type=ArtifactType.SHARDS,
        stage="shard",
        config={"seq_len": 8, "num_workers": 2},
        shaping_config={"seq_len": 8},
        inputs=(InputRef(name="corpus", type="clozeflow.Corpus", fingerprint="sha256:1", uri="x"),),
        splits={"train": Split(files=tuple(entries))},
        files=(artifacts.file_entry(str(tmp_path), "plot.svg", auxiliary=True),),
        properties={"vocab_size": 11},
    )
    artifacts.write_manifest(str(tmp_path), manifest)
    return tmp_path


def test_round_trip(folder):
    manifest = artifacts.read_manifest(str(folder))
    assert Manifest.from_dict(manifest.to_dict()) == manifest
    assert manifest.splits["train"].counts == {"num_examples": 7}
    assert manifest.input("corpus").fingerprint == "sha256:1"


def test_written_as_the_design_says(folder):
    value = json.loads((folder / "manifest.json").read_text())
    assert value["type"] == "clozeflow.Shards"
    assert value["producer"]["config"] == {"seq_len": 8, "num_workers": 2}
    assert value["splits"]["train"]["num_examples"] == 7
    assert set(value["splits"]["train"]["files"][0]) == {
        "path",
        "num_examples",
        "num_bytes",
        "sha256",
    }


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"created": "1970-01-01T00:00:00+00:00"}, True),
        ({"code": "sha256:other", "clozeflow": "9.9"}, True),
        ({"config": {"seq_len": 8, "num_workers": 64}}, True),
        ({"shaping_config": {"seq_len": 16}}, False),
        ({"type": "clozeflow.Corpus"}, False),
        ({"inputs": ()}, False),
        ({"files": ()}, True),
        ({"splits": {}}, False),
    ],
)
def test_fingerprint_covers_content_and_shaping_settings_alone(folder, change, same):
    manifest = artifacts.read_manifest(str(folder))
    changed = dataclasses.replace(manifest, **change)
    assert (changed.fingerprint == manifest.fingerprint) is same


def test_fingerprint_does_not_cover_where_the_input_was(folder):
    manifest = artifacts.read_manifest(str(folder))
    moved = dataclasses.replace(manifest.inputs[0], uri="gs://elsewhere")
    assert dataclasses.replace(manifest, inputs=(moved,)).fingerprint == manifest.fingerprint


def test_verify_passes_a_whole_artifact(folder):
    assert verify(str(folder)).type == "clozeflow.Shards"


def _flip(path):
    content = bytearray(path.read_bytes())
    content[1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["train/a", "train/b", "plot.svg"])
@pytest.mark.parametrize(
    "damage",
    [_flip, lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:-1])],
    ids=["flipped", "missing", "cut"],
)
def test_verify_names_the_damaged_file(folder, name, damage):
    damage(folder / name)
    with pytest.raises(UserError, match=name):
        verify(str(folder))


def test_edited_manifest_is_found(folder):
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"seq_len": 8', '"seq_len": 9'))
    with pytest.raises(UserError, match="was changed after it was written"):
        artifacts.read_manifest(str(folder))


WITH_A_LIST_FOR_ITS_SETTINGS = json.dumps(
    {
        "type": "clozeflow.Corpus",
        "schema_version": 1,
        "producer": {
            "stage": "corpus",
            "clozeflow": "0.1.0",
            "code": "",
            "config": [],
            "shaping_config": [False],
        },
    }
)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", "null", '{"type": 1}', WITH_A_LIST_FOR_ITS_SETTINGS]
)
def test_what_is_no_manifest_is_one_error(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(UserError, match="no manifest of clozeflow"):
        artifacts.read_manifest(str(tmp_path))


def test_unfinished_folder_is_refused(tmp_path):
    with pytest.raises(UserError, match="does not exist, or is empty"):
        artifacts.read_manifest(str(tmp_path))
    (tmp_path / "begun").write_text("")
    with pytest.raises(UserError, match="no finished artifact"):
        artifacts.read_manifest(str(tmp_path))


def test_wrong_type_is_refused_with_both_types(folder):
    with pytest.raises(UserError, match=r"clozeflow\.Shards, expected clozeflow\.Corpus"):
        artifacts.open_artifact(str(folder), ArtifactType.CORPUS, name="corpus")


def test_newer_schema_is_refused(folder):
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 99'))
    with pytest.raises(UserError, match="schema version 99, expected 1"):
        artifacts.read_manifest(str(folder))


def test_file_entry_round_trip():
    entry = FileEntry(path="a", num_bytes=1, sha256="0", counts={"num_examples": 2})
    assert FileEntry.from_dict(entry.to_dict()) == entry
