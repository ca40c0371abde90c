"""Models from outside: any configuration, and weights to go on from."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from transformers import BertConfig, DistilBertConfig, PretrainedConfig, RobertaConfig

from clozeflow.artifacts import Artifact, Manifest
from clozeflow.errors import UserError
from clozeflow.registry import STAGES
from clozeflow.stages import run_stage
from clozeflow.training.config import TrainConfig
from clozeflow.training.weights import open_masked_lm

CONFIGS = {
    "bert": BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    ),
    "distilbert": DistilBertConfig(dim=32, n_layers=2, n_heads=2, hidden_dim=64),
    "roberta": RobertaConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64
    ),
}


def train(shards: Artifact, tokenizer: Artifact, output: Path, **settings) -> Manifest:
    defaults = {"num_train_steps": 4, "global_batch_size": 16, "log_every_steps": 1}
    config = TrainConfig(**{**defaults, "warmup_steps": 1, **settings})
    inputs = {"shards": shards.uri, "tokenizer": tokenizer.uri}
    return run_stage(STAGES["train"], config, inputs=inputs, output=str(output))


def write_config(config: PretrainedConfig, folder: Path) -> Path:
    config.save_pretrained(folder)
    return folder / "config.json"


@pytest.mark.parametrize("kind", CONFIGS)
def test_any_configuration_trains_and_opens(
    kind: str, shards: Artifact, tokenizer: Artifact, tmp_path: Path
) -> None:
    given = write_config(CONFIGS[kind], tmp_path / "given")
    manifest = train(shards, tokenizer, tmp_path / "out", model_config=str(given))
    model, missing = open_masked_lm(tmp_path / "out")
    assert not missing
    assert model.config.model_type == kind
    assert model.config.vocab_size == 256  # 256 ids: a multiple of 128 already
    assert model(np.array([[0, 9, 4, 2]])).logits.shape == (1, 4, 256)
    assert [ref.name for ref in manifest.inputs] == ["shards", "tokenizer", "model_config"]


def test_weights_are_gone_on_from(shards: Artifact, tokenizer: Artifact, tmp_path: Path) -> None:
    train(shards, tokenizer, tmp_path / "first", num_train_steps=20)
    train(
        shards,
        tokenizer,
        tmp_path / "second",
        init_from=str(tmp_path / "first"),
        peak_learning_rate=1e-9,
    )
    first, second = (load_file(tmp_path / n / "model.safetensors") for n in ("first", "second"))
    for name, weight in first.items():
        np.testing.assert_allclose(second[name], weight, atol=1e-6, err_msg=name)


def test_a_model_without_room_is_refused(
    shards: Artifact, tokenizer: Artifact, tmp_path: Path
) -> None:
    train(shards, tokenizer, tmp_path / "first")
    path = tmp_path / "first" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "max_position_embeddings": 9}))
    with pytest.raises(UserError, match="not enough room for the tokens in a row"):
        train(shards, tokenizer, tmp_path / "second", init_from=str(tmp_path / "first"))


def test_nothing_there_is_refused(shards: Artifact, tokenizer: Artifact, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--init-from .* is no model"):
        train(shards, tokenizer, tmp_path / "out", init_from=str(tmp_path / "nowhere"))
    (tmp_path / "gpt").mkdir()
    (tmp_path / "gpt" / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(UserError, match="no masked language model"):
        train(shards, tokenizer, tmp_path / "out2", model_config=str(tmp_path / "gpt"))
