"""Small models of the real kinds, with weights that make their answers known beforehand."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
from transformers import RobertaConfig, TFAutoModelForMaskedLM

from clozeflow import artifacts
from clozeflow.artifacts import Artifact, ArtifactType, InputRef, Manifest
from clozeflow.evaluation.config import Shown
from clozeflow.evaluation.models import MaskedLanguageModel
from clozeflow.evaluation.questions import Rule
from clozeflow.registry import STAGES
from clozeflow.shards.source import Source
from clozeflow.stages import run_stage

SEQ_LEN = 32
MODEL_VOCAB_SIZE = 896
"""More than the tokenizer's 800, as after rounding up."""


def new_network(seed: int = 0, **settings):
    """An untrained RoBERTa of two layers."""
    import tensorflow as tf

    tf.keras.utils.set_random_seed(seed)
    config = RobertaConfig(
        **{
            "vocab_size": MODEL_VOCAB_SIZE,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 64,
            "max_position_embeddings": SEQ_LEN + 2,
            "type_vocab_size": 1,
            # Far larger than usual: answers then differ between texts without any training.
            "initializer_range": 0.3,
            **settings,
        }
    )
    network = TFAutoModelForMaskedLM.from_config(config)
    network(np.array([[0, 2]], np.int32))
    return network


def save_model(folder: Path, tokenizer: Artifact, network=None) -> Path:
    """A folder that transformers opens."""
    folder.mkdir(parents=True, exist_ok=True)
    copy_tokenizer(folder, tokenizer)
    (network or new_network()).save_pretrained(folder)
    return folder


def copy_tokenizer(folder: Path, tokenizer: Artifact) -> None:
    """The tokenizer's files, in a model's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in tokenizer.manifest.files:
        if file.path.endswith(".json"):
            shutil.copyfile(tokenizer.path(file.path), folder / file.path)


def model_artifact(folder: Path, tokenizer: Artifact, network=None) -> Artifact:
    """A MaskedLM as the train stage leaves it, with a log of its training."""
    save_model(folder, tokenizer, network)
    lines = [
        {"step": step, "loss": 6.0 - step / 50, "masked_accuracy": step / 400}
        for step in range(0, 100, 20)
    ]
    (folder / "training.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return finish_model(folder, tokenizer.manifest.fingerprint)


def finish_model(folder: Path, tokenizer_fingerprint: str) -> Artifact:
    """Writes the manifest of a model's folder."""
    files = tuple(artifacts.file_entry(str(folder), path.name) for path in sorted(folder.iterdir()))
    tokenizer = InputRef(
        name="tokenizer", type=ArtifactType.TOKENIZER, fingerprint=tokenizer_fingerprint, uri="t"
    )
    manifest = Manifest(
        type=ArtifactType.MASKED_LM,
        stage="train",
        config={},
        shaping_config={},
        inputs=(tokenizer,),
        files=files,
    )
    artifacts.write_manifest(str(folder), manifest)
    return Artifact(uri=str(folder), manifest=manifest)


def evaluate(output: Path, *, model: Artifact, shards: Artifact, baseline="", **settings):
    """The evaluate stage, run; its manifest."""
    stage = STAGES["evaluate"]
    inputs = {"model": model.uri, "shards": shards.uri, "baseline": baseline}
    return run_stage(stage, stage.config(**settings), inputs=inputs, output=str(output))


def results_of(output: Path) -> dict:
    """What the stage wrote down."""
    return json.loads((output / "evaluation.json").read_text())


def without_split(shards: Artifact, name: str) -> Artifact:
    """The same shards with one split fewer."""
    shutil.rmtree(Path(shards.uri, name))
    splits = {key: split for key, split in shards.manifest.splits.items() if key != name}
    manifest = dataclasses.replace(shards.manifest, splits=splits)
    artifacts.write_manifest(shards.uri, manifest)
    return Artifact(uri=shards.uri, manifest=manifest)


def rows(shards: Artifact, split: str) -> dict[str, np.ndarray]:
    """All examples of a split, as one batch."""
    source = Source.open(shards, split)
    parts = [source.read(index) for index in range(len(source.files))]
    input_ids, attention_mask = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return {
        "input_ids": input_ids,
        "attention_mask": attention_mask.astype(np.int32),
        "row": np.arange(len(input_ids)),
    }


def rule_of(model: MaskedLanguageModel, shown: Shown) -> Rule:
    """How the evaluate stage asks a model by default, but for what is shown."""
    return Rule(
        masking_rate=0.15,
        shown=shown,
        mask_token_id=model.mask_token_id,
        is_ordinary=model.pieces.is_ordinary,
    )
