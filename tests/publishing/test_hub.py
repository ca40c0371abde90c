"""Publishing to the Hub: whole, resumed, retried, refused, and with the token nowhere."""

import hashlib
import json
import os
import signal
from pathlib import Path

import pytest

from clozeflow import artifacts
from tests.hub_server import READ_TOKEN, TOKEN, Repository
from tests.publishing.conftest import (
    OTHER_WEIGHTS,
    WEIGHTS,
    evaluation_of,
    folders_of,
    published_paths,
    run,
    start,
)

WHERE = ["--publish-to", "hf:me/model"]
NUM_LARGE = 3  # both formats of the weights, and a picture


def test_files_arrive_whole(hub, model, evaluation, tmp_path):
    code, said = run(hub, [*folders_of(model, evaluation, tmp_path / "out"), *WHERE])
    assert code == 0, said
    repository = hub.repositories["me/model"]
    assert repository.private
    assert repository.files.keys() == published_paths(model)
    assert repository.files["model.safetensors"] == WEIGHTS
    assert repository.files["tf_model.h5"] == OTHER_WEIGHTS
    record = json.loads((tmp_path / "out" / "publication.json").read_text())
    assert record["places"][0]["revision"] == repository.commits[-1]
    for entry in record["files"]:
        content = repository.files[entry["path"]]
        assert hashlib.sha256(content).hexdigest() == entry["sha256"]
    manifest = artifacts.read_manifest(str(tmp_path / "out"))
    assert manifest.type == "clozeflow.Publication"
    assert manifest.properties["revisions"] == repository.commits[-1]


def test_what_is_published_is_an_artifact_of_the_same_fingerprint(hub, model, evaluation, tmp_path):
    run(hub, [*folders_of(model, evaluation, tmp_path / "out"), *WHERE])
    for path, content in hub.repositories["me/model"].files.items():
        (tmp_path / "copy" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "copy" / path).write_bytes(content)
    manifest = artifacts.read_manifest(str(tmp_path / "copy"))
    artifacts.check_files(str(tmp_path / "copy"), manifest.all_files())
    assert manifest.fingerprint == model.manifest.fingerprint


def test_the_token_is_in_no_file_and_no_output(hub, model, evaluation, tmp_path):
    _, said = run(hub, [*folders_of(model, evaluation, tmp_path / "out"), *WHERE])
    hub.interfere = lambda method, path: 403 if path.endswith("/commit/main") else None
    code, refused = run(hub, [*folders_of(model, evaluation, tmp_path / "out2"), *WHERE])
    assert code == 2 and "HTTP 403" in refused
    assert TOKEN not in said + refused
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path
    for content in hub.repositories["me/model"].files.values():
        assert TOKEN.encode() not in content
        assert str(tmp_path).encode() not in content  # nor where the model was


def test_killed_in_the_middle_and_run_again_it_completes(hub, model, evaluation, tmp_path):
    before = {p: p.read_bytes() for p in Path(model.uri).rglob("*") if p.is_file()}
    arguments = [*folders_of(model, evaluation, tmp_path / "out"), *WHERE]
    running = []

    def kill_at_the_second_upload(method, path):
        if method == "PUT" and hub.objects:
            os.kill(running[0].pid, signal.SIGKILL)
            return 500
        return None

    hub.interfere = kill_at_the_second_upload
    running.append(start(hub, arguments))
    running[0].communicate(timeout=120)
    assert running[0].returncode == -signal.SIGKILL
    assert hub.repositories["me/model"].files == {}
    assert not artifacts.is_finished(str(tmp_path / "out"))
    (first,) = hub.objects

    hub.interfere = lambda method, path: None
    hub.requests.clear()
    code, said = run(hub, arguments)
    assert code == 0, said
    assert hub.repositories["me/model"].files.keys() == published_paths(model)
    assert len(hub.uploads()) == NUM_LARGE - 1
    assert first not in hub.uploads()
    assert {p: p.read_bytes() for p in Path(model.uri).rglob("*") if p.is_file()} == before


def test_what_fails_for_a_while_is_tried_again(hub, model, evaluation, tmp_path):
    failures = {"/lfs/": 1, "/commit/": 1, "/preupload/": 1}

    def fail_once(method, path):
        for part, left in failures.items():
            if part in path and left:
                failures[part] -= 1
                return 503
        return None

    hub.interfere = fail_once
    code, said = run(hub, [*folders_of(model, evaluation, tmp_path / "out"), *WHERE])
    assert code == 0, said
    assert not any(failures.values())
    assert hub.repositories["me/model"].files.keys() == published_paths(model)


@pytest.mark.parametrize(
    ("token", "message"),
    [("hf_wrong-0123456789", "is refused"), (READ_TOKEN, "may only read"), ("", "holds no token")],
)
def test_a_wrong_token_is_said_before_anything_is_uploaded(
    hub, model, evaluation, tmp_path, token, message
):
    arguments = [*folders_of(model, evaluation, tmp_path / "out"), *WHERE]
    code, said = run(hub, arguments, token=token, HF_HOME=str(tmp_path / "home"))
    assert code == 2
    assert message in said
    assert not token or token not in said
    assert [method for method, _ in hub.requests if method != "GET"] == []
    assert hub.repositories == {}


def test_the_same_again_makes_no_second_commit(hub, model, evaluation, tmp_path):
    run(hub, [*folders_of(model, evaluation, tmp_path / "out"), *WHERE])
    uploaded = len(hub.uploads())
    code, said = run(hub, [*folders_of(model, evaluation, tmp_path / "out"), *WHERE])
    assert code == 0 and "already done" in said
    code, said = run(hub, [*folders_of(model, evaluation, tmp_path / "other"), *WHERE])
    assert code == 0, said
    assert len(hub.uploads()) == uploaded
    commits = hub.repositories["me/model"].commits
    assert commits[-1] == commits[1]


def test_a_public_repository_is_no_private_one(hub, model, evaluation, tmp_path):
    hub.repositories["me/model"] = Repository(private=False)
    arguments = [*folders_of(model, evaluation, tmp_path / "out"), *WHERE]
    code, said = run(hub, arguments)
    assert code == 2 and "is there already, and public" in said
    assert hub.uploads() == []
    code, said = run(hub, [*arguments, "--visibility", "public"])
    assert code == 0, said


def test_not_without_a_blessing_unless_forced(hub, model, tmp_path):
    unblessed = evaluation_of(model, tmp_path / "unblessed", blessed=False)
    arguments = [*folders_of(model, unblessed, tmp_path / "out"), *WHERE]
    code, said = run(hub, arguments)
    assert code == 2
    assert "does not bless the model (got masked_accuracy>=0.35: not met (0.4))" in said
    assert hub.requests == []
    code, said = run(hub, [*arguments, "--force"])
    assert code == 0, said
    assert b"Not blessed: masked_accuracy" in hub.repositories["me/model"].files["README.md"]


def test_a_damaged_model_is_not_published(hub, model, evaluation, tmp_path):
    Path(model.uri, "model.safetensors").write_bytes(WEIGHTS[:-1])
    code, said = run(hub, [*folders_of(model, evaluation, tmp_path / "out"), *WHERE])
    assert code == 2 and "model.safetensors: has another length" in said
    assert [method for method, _ in hub.requests if method != "GET"] == []


def test_a_hub_that_cannot_be_reached_is_said(model, evaluation, tmp_path, monkeypatch):
    from clozeflow import hub_client
    from clozeflow.errors import UserError

    def work():
        raise ConnectionError("no route to hf_secret")

    monkeypatch.setattr(hub_client, "FIRST_WAIT_SECONDS", 0.001)
    with pytest.raises(UserError, match=r"did not make it.*ConnectionError") as caught:
        hub_client.retried(work, "make it")
    assert "hf_secret" not in str(caught.value)
