"""Publishing to folders, here and in a bucket; what is refused before anything is sent."""

import dataclasses
import json
import os
from pathlib import Path

import pytest

from clozeflow import artifacts, storage
from clozeflow.artifacts import ArtifactType
from clozeflow.cache import StageCache
from clozeflow.errors import UserError
from clozeflow.publishing import folder as folders
from clozeflow.publishing.config import PublishConfig
from clozeflow.publishing.destinations import (
    Folder,
    HubRepository,
    RegistryModel,
    parse_destinations,
)
from clozeflow.registry import STAGES
from clozeflow.stages import run_stage
from clozeflow.verification import verify
from tests.publishing.conftest import evaluation_of, finish, published_paths


def publish(model, evaluation, output, *, cache=None, **settings):
    stage = STAGES["publish"]
    inputs = {"model": model.uri, "evaluation": evaluation.uri}
    return run_stage(
        stage, PublishConfig(**settings), inputs=inputs, output=str(output), cache=cache
    )


def test_a_folder_gets_a_whole_model_that_shares_nothing_with_ours(model, evaluation, tmp_path):
    target = tmp_path / "public" / "model"
    manifest = publish(model, evaluation, tmp_path / "out", publish_to=str(target))
    found = verify(str(target))
    assert found.fingerprint == model.manifest.fingerprint == manifest.properties["revisions"]
    assert set(storage.list_files(str(target))) == published_paths(model)
    ours = Path(model.uri, "model.safetensors")
    assert not os.path.samefile(ours, target / "model.safetensors")
    assert Path(model.uri, "README.md").read_bytes() == b"the card that training wrote"


def test_a_bucket_and_a_folder_at_once(model, evaluation, tmp_path, bucket):
    places = f"{bucket}/models/one, {tmp_path / 'here'}"
    publish(model, evaluation, tmp_path / "out", publish_to=places)
    assert verify(f"{bucket}/models/one").fingerprint == model.manifest.fingerprint
    assert verify(str(tmp_path / "here")).fingerprint == model.manifest.fingerprint
    record = json.loads((tmp_path / "out" / "publication.json").read_text())
    assert [place["where"] for place in record["places"]] == places.split(", ")


def test_a_model_in_a_bucket_is_published_from_there(model, evaluation, tmp_path, bucket):
    for name in storage.list_files(model.uri):
        storage.copy_file(model.path(name), f"{bucket}/source/{name}")
    there = artifacts.Artifact(uri=f"{bucket}/source", manifest=model.manifest)
    publish(there, evaluation, f"{bucket}/out", publish_to=str(tmp_path / "here"))
    assert verify(str(tmp_path / "here")).fingerprint == model.manifest.fingerprint
    assert artifacts.is_finished(f"{bucket}/out")


def test_a_copy_that_was_broken_off_goes_on(model, evaluation, tmp_path, monkeypatch):
    target = tmp_path / "public"
    copied = []
    copy = folders._copy

    def stop_at_the_third(file, location):
        if len(copied) == 2:
            raise KeyboardInterrupt
        copied.append(location)
        copy(file, location)

    monkeypatch.setattr(folders, "_copy", stop_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        publish(model, evaluation, tmp_path / "out", publish_to=str(target))
    assert not (target / "manifest.json").exists()
    (target / "model.safetensors").write_bytes(b"half")
    before = Path(copied[0]).stat().st_mtime_ns
    monkeypatch.setattr(folders, "_copy", copy)
    publish(model, evaluation, tmp_path / "out", publish_to=str(target))
    verify(str(target))
    assert Path(copied[0]).stat().st_mtime_ns == before


def test_another_folder_is_left_as_it_is(model, evaluation, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match=r"not the model's.*thesis\.txt"):
        publish(model, evaluation, tmp_path / "out", publish_to=str(tmp_path / "mine"))
    other = evaluation_of(model, tmp_path / "other")
    publish(model, evaluation, tmp_path / "out", publish_to=str(tmp_path / "there"))
    publish(model, other, tmp_path / "out2", publish_to=str(tmp_path / "there"))
    Path(other.uri, "evaluation.json").write_text('{"changed": 1}')
    names = [file.path for file in other.manifest.files]
    changed = tuple(artifacts.file_entry(other.uri, name) for name in names)
    artifacts.write_manifest(other.uri, dataclasses.replace(other.manifest, files=changed))
    with pytest.raises(UserError, match="another model already"):
        publish(model, other, tmp_path / "out3", publish_to=str(tmp_path / "there"))


def test_a_file_of_the_same_name_and_other_content_is_left_as_it_is(model, evaluation, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("mine")
    with pytest.raises(UserError, match=r"not the model's.*README\.md"):
        publish(model, evaluation, tmp_path / "out", publish_to=str(tmp_path / "mine"))
    assert (tmp_path / "mine" / "README.md").read_text() == "mine"


def test_nothing_is_sent_where_one_of_several_places_is_not_possible(model, evaluation, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    places = f"{tmp_path / 'new'},{tmp_path / 'mine'}"
    with pytest.raises(UserError, match="not the model's"):
        publish(model, evaluation, tmp_path / "out", publish_to=places)
    assert not (tmp_path / "new").exists()


def test_an_evaluation_of_another_model_is_refused(model, evaluation, tmp_path):
    made = {"stage": "train", "config": {"seed": 2}, "shaping_config": {"seed": 2}}
    other = finish(tmp_path / "m2", ArtifactType.MASKED_LM, {"config.json": b"{}"}, **made)
    with pytest.raises(UserError, match="is not the model that --evaluation"):
        publish(other, evaluation, tmp_path / "out", publish_to=str(tmp_path / "new"))


def test_a_refused_publication_leaves_no_folder(model, tmp_path):
    rejected = evaluation_of(model, tmp_path / "evaluation", blessed=False)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match=r"does not bless the model.*not met"):
        publish(model, rejected, tmp_path / "out", publish_to=str(tmp_path / "new"))
    with pytest.raises(UserError, match="not the model's"):
        publish(model, rejected, tmp_path / "out", publish_to=str(tmp_path / "mine"), force=True)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "new").exists()


def test_no_destination_is_refused(model, evaluation, tmp_path):
    with pytest.raises(UserError, match="names no destination"):
        publish(model, evaluation, tmp_path / "out")


def test_publishing_is_never_taken_from_the_cache(model, evaluation, tmp_path):
    cache = StageCache(tmp_path / "cache")
    for name in ("one", "two"):
        storage.remove_folder(str(tmp_path / "public"))
        publish(
            model,
            evaluation,
            tmp_path / name,
            cache=cache,
            publish_to=str(tmp_path / "public"),
        )
        verify(str(tmp_path / "public"))


def test_destinations_are_read_by_their_kind():
    found = parse_destinations("hf:me/model, vertex:my-project/us-central1/cloze_1, gs://b/f/, x/y")
    assert found == [
        HubRepository(repository="me/model"),
        RegistryModel(project="my-project", location="us-central1", model="cloze_1"),
        Folder(location="gs://b/f"),
        Folder(location="x/y"),
    ]
    assert found[1].name == "projects/my-project/locations/us-central1/models/cloze_1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hf:model", "hf:OWNER/NAME"),
        ("vertex:p/us-central1", "vertex:PROJECT/LOCATION/MODEL"),
        ("s3://bucket/folder", "is no place to publish to"),
        ("a,a", "names a destination twice"),
    ],
)
def test_what_is_no_destination_is_refused_at_once(text, message):
    with pytest.raises(UserError, match=message):
        PublishConfig(publish_to=text)


def test_a_secret_is_a_name_and_never_the_token():
    with pytest.raises(UserError, match="token-secret"):
        PublishConfig(token_secret="my-secret")
    assert "token_secret" not in PublishConfig().shaping_settings()


def test_the_registry_wants_the_container_that_serves():
    place = "vertex:my-project/us-central1/cloze_1"
    with pytest.raises(UserError, match="--serving-image"):
        PublishConfig(publish_to=place)
    assert PublishConfig(publish_to=place, serving_image="tf2").serving_image == "tf2"
