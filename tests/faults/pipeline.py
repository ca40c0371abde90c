"""The whole pipeline, tiny: text of our own, a model of 24,000 weights, each stage one command."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clozeflow import artifacts, storage
from clozeflow.config import flag

INJECTION = Path(__file__).parent / "injection"
ROOT = Path(__file__).parents[2]

STAGES = ("corpus", "tokenizer", "shard", "train", "evaluate", "publish")
OUTPUTS = {
    "corpus": "corpus",
    "tokenizer": "tokenizer",
    "shard": "shards",
    "train": "model",
    "evaluate": "evaluation",
    "publish": "publication",
}
PUBLISHED = "published"
NUM_TRAIN_STEPS = 24

SMALL_UNITS = {
    "clozeflow.corpus.reading:UNIT_BYTES": 40_000,
    "clozeflow.corpus.textfile:BLOCK_BYTES": 20_000,
    "clozeflow.corpus.phases:SPILL_BYTES": 20_000,
    "clozeflow.corpus.phases:BUCKET_BYTES": 40_000,
    "clozeflow.corpus.phases:BAND_BYTES": 60_000,
    "clozeflow.corpus.parts:PART_BYTES": 40_000,
    "clozeflow.corpus.parts:ROW_GROUP_BYTES": 10_000,
}
"""Little text is cut finely, so that there are units that others do while one is lost."""

_TIMES = ("seconds", "tokens_per_second")
_MODEL = {
    "model_type": "roberta",
    "vocab_size": 300,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 40,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pipeline:
    """The commands of a run whose artifacts are, or will be, below `folder`."""

    folder: str
    """Local or in a bucket."""
    sources: Path
    """Where `write_sources` wrote."""
    text: str = ""
    """Where the text is, by default there too."""
    publish_to: str = ""
    """By default beside the artifacts."""

    def output(self, stage: str) -> str:
        """The folder of a stage's artifact."""
        return storage.join(self.folder, OUTPUTS[stage])

    def published(self) -> str:
        """The folder that the model is published to."""
        return self.publish_to or storage.join(self.folder, PUBLISHED)

    def arguments(self, stage: str, *, output: str = "", num_workers: int = 2) -> list[str]:
        """A stage's command, from `clozeflow` on; `output` in place of the usual folder."""
        workers = {"num_workers": num_workers} if stage in STAGES[:3] else {}
        given = {**self.inputs(stage), "output": output or self.output(stage), **workers}
        flags = [stage]
        for name, value in (given | self.settings(stage)).items():
            flags += [flag(name), *map(str, value if isinstance(value, tuple) else (value,))]
        return flags

    def inputs(self, stage: str) -> dict[str, str]:
        """The folders of a stage's inputs."""
        names = {
            "tokenizer": ("corpus",),
            "shard": ("corpus", "tokenizer"),
            "train": ("shards", "tokenizer"),
            "evaluate": ("model", "shards"),
            "publish": ("model", "evaluation"),
        }
        return {name: storage.join(self.folder, name) for name in names.get(stage, ())}

    def settings(self, stage: str) -> dict[str, Any]:
        """A stage's settings, by the names of its config's fields."""
        return {
            "corpus": {
                "source": (f"{self.text or self.sources}/*.txt",),
                "validation_fraction": 0.1,
                "test_fraction": 0.05,
            },
            "tokenizer": {"vocab_size": 300},
            "shard": {"seq_len": 32, "examples_per_shard": 64},
            "train": {
                "model_config": f"{self.sources}/model.json",
                "num_train_steps": NUM_TRAIN_STEPS,
                "warmup_steps": 4,
                "global_batch_size": 16,
                "log_every_steps": 7,
                "checkpoint_every_steps": 4,
                "steps_per_call": 2,
                "validate_every_steps": 12,
            },
            "evaluate": {"require": ("mask_loss<100",)},
            "publish": {"publish_to": self.published()},
        }[stage]


def write_sources(folder: Path, *, num_documents: int = 900, seed: int = 0) -> Path:
    """Text in three files (some documents twice), and the model's config."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyzäöü"
    words = ["".join(draw.choices(letters, k=draw.randint(2, 9))) for _ in range(400)]
    documents = [
        " ".join(draw.choices(words, k=draw.randint(5, 50))).capitalize() + "."
        for _ in range(num_documents)
    ]
    documents += documents[:20]
    for index in range(3):
        text = "\n".join(documents[index::3]) + "\n"
        (folder / f"{index}.txt").write_text(text, encoding="utf-8")
    (folder / "model.json").write_text(json.dumps(_MODEL))
    return folder


def environment(**faults: Any) -> dict[str, str]:
    """The environment of a command to which the given faults happen (see `sitecustomize`)."""
    faults = {"constants": SMALL_UNITS, **faults}
    paths = [str(INJECTION), str(ROOT / "src"), str(ROOT)]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "CLOZEFLOW_FAULTS": json.dumps(faults),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "-1",
        "HF_HUB_OFFLINE": "1",
    }


def command(arguments: list[Any]) -> list[str]:
    """How a process of a stage is started."""
    return [sys.executable, "-m", "clozeflow.cli", *map(str, arguments)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ended:
    """How a command ended."""

    code: int
    errors: str
    seconds: float


def run(arguments: list[Any], *, timeout: float = 240, **faults: Any) -> Ended:
    """Runs a command to its end."""
    start = time.monotonic()
    done = subprocess.run(
        command(arguments),
        env=environment(**faults),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Ended(code=done.returncode, errors=done.stderr, seconds=time.monotonic() - start)


def run_well(arguments: list[Any], **settings: Any) -> Ended:
    """Runs a command that must succeed."""
    ended = run(arguments, **settings)
    assert ended.code == 0, ended.errors[-3000:]
    return ended


def run_all(
    pipeline: Pipeline, stages: tuple[str, ...] = STAGES, **faults: Any
) -> dict[str, float]:
    """Runs stages one after the other; the seconds that each took."""
    return {stage: run_well(pipeline.arguments(stage), **faults).seconds for stage in stages}


def result(output: str) -> dict[str, str]:
    """What an artifact is: its fingerprint, and the hash of each file that time does not change."""
    storage.filesystem(output)[0].invalidate_cache()  # another process has written
    manifest = artifacts.read_manifest(output)
    found = {"fingerprint": manifest.fingerprint}
    found |= {entry.path: entry.sha256 for entry in manifest.all_files() if not entry.auxiliary}
    log = storage.join(output, "training.jsonl")
    if storage.is_file(log):
        found["training.jsonl"] = hashlib.sha256(_without_times(log).encode()).hexdigest()
    return found


def _without_times(location: str) -> str:
    rows = [json.loads(line) for line in storage.read_text(location).splitlines()]
    return json.dumps([{k: v for k, v in row.items() if k not in _TIMES} for row in rows])


def hashes(folder: str) -> dict[str, str]:
    """Every file below a folder, hidden ones too, with its hash; no folder, no files."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }


def differences(expected: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """The names under which two results are not the same."""
    return sorted(n for n in {*expected, *found} if expected.get(n) != found.get(n))
