"""Checkpoints go to the Hub while training goes on, whatever the Hub does."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.numpy import load, load_file

from clozeflow.artifacts import Artifact
from clozeflow.errors import UserError
from clozeflow.training.hub import HubPush
from tests.hub_server import READ_TOKEN, TOKEN, FakeHub, Repository


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    server = FakeHub()
    yield server
    server.close()


def train(
    shards: Artifact, tokenizer: Artifact, output: Path, *, hub: FakeHub, token: str = TOKEN
) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "clozeflow.cli", "train", "--push-to-hub", "me/model"]
    command += ["--shards", shards.uri, "--tokenizer", tokenizer.uri, "--output", str(output)]
    command += ["--num-train-steps", "12", "--checkpoint-every-steps", "6"]
    command += ["--global-batch-size", "16"]
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "0",
        "HF_ENDPOINT": hub.url,
        "HF_TOKEN": token,
        "HF_HUB_DISABLE_XET": "1",
    }
    return subprocess.run(command, check=False, env=environment, capture_output=True, text=True)


def test_checkpoints_and_the_finished_model_are_pushed(
    shards: Artifact, tokenizer: Artifact, tmp_path: Path, hub: FakeHub
) -> None:
    result = train(shards, tokenizer, tmp_path / "out", hub=hub)
    assert result.returncode == 0, result.stderr
    repository = hub.repositories["me/model"]
    assert repository.private
    messages = [message for message, _ in repository.history]
    assert (messages[0], messages[-1]) == ("Step 6", "The finished model"), result.stderr
    first, last = repository.history[0][1], repository.history[-1][1]
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= first.keys()
    assert not any(name.startswith((".work", "logs")) for name in last)
    final = load_file(tmp_path / "out" / "model.safetensors")
    pushed, earlier = load(last["model.safetensors"]), load(first["model.safetensors"])
    assert pushed.keys() == final.keys() == earlier.keys()
    assert all((pushed[name] == final[name]).all() for name in final)
    assert any((earlier[name] != final[name]).any() for name in final)


def test_a_hub_that_fails_later_does_not_stop_training(
    shards: Artifact, tokenizer: Artifact, tmp_path: Path, hub: FakeHub
) -> None:
    hub.interfere = lambda method, path: 403 if "/commit/" in path else None
    result = train(shards, tokenizer, tmp_path / "out", hub=hub)
    assert result.returncode == 0, result.stderr
    assert "push to me/model failed; training goes on" in result.stderr
    assert (tmp_path / "out" / "manifest.json").is_file()


@pytest.mark.parametrize(
    ("token", "message"), [("hf_wrong", "is refused"), (READ_TOKEN, "may only read")]
)
def test_a_token_that_is_not_taken_stops_the_run_before_its_first_step(
    shards: Artifact, tokenizer: Artifact, tmp_path: Path, hub: FakeHub, token: str, message: str
) -> None:
    result = train(shards, tokenizer, tmp_path / "out", hub=hub, token=token)
    assert result.returncode == 2
    assert message in result.stderr
    assert not (tmp_path / "out" / "training.jsonl").exists()


def test_a_public_repository_gets_nothing(
    shards: Artifact, tokenizer: Artifact, tmp_path: Path, hub: FakeHub
) -> None:
    hub.repositories["me/model"] = Repository(private=False)
    result = train(shards, tokenizer, tmp_path / "out", hub=hub)
    assert result.returncode == 2
    assert "is there already, and public" in result.stderr


def test_without_a_token_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with pytest.raises(UserError, match="HF_TOKEN"):
        HubPush("me/model", model=None, tokenizer_folder=Path(), seq_len=16)
