"""A model and its evaluation, with no TensorFlow: publishing reads files and manifests alone."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clozeflow import artifacts
from clozeflow.artifacts import Artifact, ArtifactType, InputRef, Manifest
from tests.hub_server import TOKEN, FakeHub

WEIGHTS = bytes(range(256)) * 200
OTHER_WEIGHTS = bytes(reversed(range(256))) * 300


def finish(folder: Path, kind: ArtifactType, files: dict[str, bytes], **content) -> Artifact:
    """An artifact of these files; those of the report's kind are auxiliary."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text)
    entries = tuple(
        artifacts.file_entry(str(folder), name, auxiliary=name.endswith((".md", ".h5", ".png")))
        for name in files
    )
    manifest = Manifest(type=kind, files=entries, **content)
    artifacts.write_manifest(str(folder), manifest)
    return Artifact(uri=str(folder), manifest=manifest)


def ref_to(artifact: Artifact, name: str) -> InputRef:
    manifest = artifact.manifest
    return InputRef(
        name=name, type=manifest.type, fingerprint=manifest.fingerprint, uri=artifact.uri
    )


@pytest.fixture
def model(tmp_path: Path) -> Artifact:
    """A model that leads back to a data set of the Hub and to a file of this machine."""
    settings = {"config": {}, "shaping_config": {}}
    sources = (
        InputRef(
            name="hub", type="source", fingerprint="sha256:aa", uri="hf:wikitext@b08601e#train"
        ),
        InputRef(
            name="speeches", type="source", fingerprint="sha256:bb", uri="/home/me/secret/a.txt"
        ),
    )
    corpus = finish(
        tmp_path / "corpus",
        ArtifactType.CORPUS,
        {"a.parquet": b"x"},
        stage="corpus",
        inputs=sources,
        properties={"num_documents": 25329},
        **settings,
    )
    tokenizer = finish(
        tmp_path / "tokenizer",
        ArtifactType.TOKENIZER,
        {"tokenizer.json": b"{}"},
        stage="tokenizer",
        inputs=(ref_to(corpus, "corpus"),),
        properties={"algorithm": "unigram", "vocab_size": 8192},
        **settings,
    )
    line = {"step": 9, "loss": 1.0, "masked_accuracy": 0.5, "seconds": 5400.0}
    return finish(
        tmp_path / "model",
        ArtifactType.MASKED_LM,
        {
            "config.json": b'{"model_type": "roberta"}',
            "model.safetensors": WEIGHTS,
            "tf_model.h5": OTHER_WEIGHTS,
            "plots/loss.png": b"\x89PNG\0" * 50,
            "training.jsonl": json.dumps(line).encode() + b"\n",
            "README.md": b"the card that training wrote",
        },
        stage="train",
        config={"preset": "tiny"},
        shaping_config={"preset": "tiny"},
        inputs=(ref_to(tokenizer, "tokenizer"),),
        properties={"num_parameters": 1000, "num_train_tokens": 10_000, "seq_len": 128},
    )


def evaluation_of(model: Artifact, folder: Path, *, blessed: bool = True) -> Artifact:
    word = "met" if blessed else "not met"
    return finish(
        folder,
        ArtifactType.EVALUATION,
        {"evaluation.json": b"{}", "report.html": b"<p>report</p>"},
        stage="evaluate",
        config={},
        shaping_config={},
        inputs=(ref_to(model, "model"),),
        properties={
            "split": "validation",
            "num_questions": 1234,
            "verdict": f"masked_accuracy>=0.35: {word} (0.4)",
        },
        metrics={"loss": 2.5, "masked_accuracy": 0.4},
        parameters={"blessed": blessed},
    )


@pytest.fixture
def evaluation(model: Artifact, tmp_path: Path) -> Artifact:
    return evaluation_of(model, tmp_path / "evaluation")


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    server = FakeHub()
    yield server
    server.close()


def start(
    hub: FakeHub | None, arguments: list[str], *, token: str = TOKEN, **variables: str
) -> subprocess.Popen:
    """`clozeflow publish …` in a process of its own, with the Hub at the fake's address.

    The Hub's library reads its address and whether it is offline when it is imported.
    """
    environment = {**os.environ, "HF_TOKEN": token, "HF_HUB_OFFLINE": "0", **variables}
    environment["HF_ENDPOINT"] = hub.url if hub else "http://127.0.0.1:9"
    return subprocess.Popen(
        [sys.executable, "-m", "clozeflow.cli", "publish", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(hub: FakeHub | None, arguments: list[str], **settings) -> tuple[int, str]:
    """The command's exit code and all that it said."""
    process = start(hub, arguments, **settings)
    said, _ = process.communicate(timeout=120)
    return process.returncode, said


def folders_of(model: Artifact, evaluation: Artifact, output: Path) -> list[str]:
    return ["--model", model.uri, "--evaluation", evaluation.uri, "--output", str(output)]


def published_paths(model: Artifact) -> set[str]:
    """What is to be found at a destination."""
    own = {file.path for file in model.manifest.files}
    return {*own, "manifest.json", "evaluation/evaluation.json", "evaluation/report.html"}
