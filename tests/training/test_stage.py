"""The whole stage on small shards: what it writes opens, and bad input is refused at once."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from transformers import AutoTokenizer, TFAutoModelForMaskedLM

from clozeflow import artifacts
from clozeflow.artifacts import Artifact, Manifest
from clozeflow.errors import UserError
from clozeflow.registry import STAGES
from clozeflow.stages import run_stage
from clozeflow.training.config import TrainConfig
from clozeflow.training.weights import open_masked_lm
from tests.training import artifacts_of_tests

GOLDEN_LOSSES = Path(__file__).with_name("golden_losses.json")
CONFIG = TrainConfig(
    num_train_steps=20,
    warmup_steps=4,
    global_batch_size=16,
    log_every_steps=1,
    checkpoint_every_steps=8,
)


def train(shards: Artifact, tokenizer: Artifact, output: Path, **settings) -> Manifest:
    config = TrainConfig.from_mapping({**CONFIG.to_dict(), **settings})
    inputs = {"shards": shards.uri, "tokenizer": tokenizer.uri}
    return run_stage(STAGES["train"], config, inputs=inputs, output=str(output))


@pytest.fixture(scope="module")
def trained(
    shards: Artifact, tokenizer: Artifact, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Manifest]:
    folder = tmp_path_factory.mktemp("trained") / "model"
    return folder, train(shards, tokenizer, folder)


def test_the_loss_curve_is_the_golden_one(trained: tuple[Path, Manifest]) -> None:
    """Seed, order, masks, dropout, step and optimizer: a change of any of them shows here."""
    lines = (trained[0] / "training.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN_LOSSES.write_text(json.dumps([round(loss, 5) for loss in losses], indent=1) + "\n")
    # Another processor adds in another order: that is far below what a change does.
    np.testing.assert_allclose(losses, json.loads(GOLDEN_LOSSES.read_text()), atol=1e-3)
    assert losses[-1] < losses[0] < 1.05 * np.log(artifacts_of_tests.VOCAB_SIZE)


def test_the_manifest_says_what_later_stages_need(trained: tuple[Path, Manifest]) -> None:
    manifest = trained[1]
    assert manifest.properties["seq_len"] == 16
    assert manifest.properties["vocab_size"] == 256
    assert manifest.properties["num_parameters"] == 449_024
    fingerprinted = {file.path for file in manifest.files if not file.auxiliary}
    assert fingerprinted == {
        "config.json",
        "model.safetensors",
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert not (trained[0] / ".work").exists()


def test_both_weight_files_open_without_torch_and_agree(trained: tuple[Path, Manifest]) -> None:
    folder, _ = trained
    ids = np.array([[0, 10, 17, 4, 31, 2]])
    from_pytorch, missing = open_masked_lm(folder)
    from_tensorflow, report = TFAutoModelForMaskedLM.from_pretrained(
        folder, use_safetensors=False, output_loading_info=True
    )
    assert not missing and not any(report.values())
    logits = from_pytorch(ids).logits.numpy()
    np.testing.assert_array_equal(logits, from_tensorflow(ids).logits.numpy())
    assert logits.shape == (1, 6, 256)


def test_a_folder_with_one_kind_of_weights_opens(
    trained: tuple[Path, Manifest], tmp_path: Path
) -> None:
    ids = np.array([[0, 10, 4, 2]])
    expected = open_masked_lm(trained[0])[0](ids).logits.numpy()
    for kept in ("tf_model.h5", "model.safetensors"):
        folder = tmp_path / kept
        folder.mkdir()
        for name in ("config.json", kept):
            shutil.copy(trained[0] / name, folder / name)
        model, missing = open_masked_lm(folder)
        assert not missing
        np.testing.assert_array_equal(model(ids).logits.numpy(), expected)


def test_a_missing_weight_is_named(trained: tuple[Path, Manifest], tmp_path: Path) -> None:
    weights = load_file(trained[0] / "model.safetensors")
    del weights["lm_head.bias"]
    save_file(weights, tmp_path / "model.safetensors")
    shutil.copy(trained[0] / "config.json", tmp_path / "config.json")
    assert open_masked_lm(tmp_path)[1] == ["lm_head.bias"]


def test_weights_bear_the_names_and_layout_of_pytorch(trained: tuple[Path, Manifest]) -> None:
    shapes = {name: a.shape for name, a in load_file(trained[0] / "model.safetensors").items()}
    assert shapes["roberta.embeddings.word_embeddings.weight"] == (256, 128)
    assert shapes["roberta.encoder.layer.1.intermediate.dense.weight"] == (512, 128)
    assert shapes["roberta.encoder.layer.0.attention.self.query.bias"] == (128,)
    assert shapes["lm_head.layer_norm.weight"] == (128,)
    assert shapes["lm_head.bias"] == (256,)


def test_the_tokenizer_opens_and_cuts_to_what_the_model_takes(
    trained: tuple[Path, Manifest], tokenizer: Artifact
) -> None:
    copied = AutoTokenizer.from_pretrained(trained[0])
    original = AutoTokenizer.from_pretrained(tokenizer.uri)
    text = "w3 w10 <mask> w24"
    assert copied(text)["input_ids"] == original(text)["input_ids"]
    assert copied.model_max_length == 16
    assert len(copied(" ".join(["w1"] * 99), truncation=True)["input_ids"]) == 16


def test_the_same_command_gives_the_same_bytes(
    trained: tuple[Path, Manifest], shards: Artifact, tokenizer: Artifact, tmp_path: Path
) -> None:
    again = train(shards, tokenizer, tmp_path / "again", steps_per_call=3)
    assert again.fingerprint == trained[1].fingerprint


class TestRefused:
    def refusal(self, shards: Artifact, tokenizer: Artifact, folder: Path, **settings) -> str:
        with pytest.raises(UserError) as caught:
            train(shards, tokenizer, folder / "refused", **settings)
        assert not (folder / "refused" / "training.jsonl").exists()
        return str(caught.value)

    def test_a_batch_larger_than_the_data(
        self, shards: Artifact, tokenizer: Artifact, tmp_path: Path
    ) -> None:
        message = self.refusal(shards, tokenizer, tmp_path, global_batch_size=97)
        assert "--global-batch-size" in message and "97" in message and "96" in message

    def test_a_tokenizer_that_is_not_the_shards(self, shards: Artifact, tmp_path: Path) -> None:
        other = artifacts_of_tests.write_tokenizer(
            tmp_path / "other", special=("<s>", "<pad>", "</s>", "<unk>", "<mask>", "new")
        )
        message = self.refusal(shards, other, tmp_path)
        assert "is not the tokenizer" in message
        assert other.manifest.fingerprint[:19] in message

    def test_a_padding_id_that_tensorflow_does_not_know(self, tmp_path: Path) -> None:
        special = ("<pad>", "<s>", "</s>", "<unk>", "<mask>")
        tokenizer = artifacts_of_tests.write_tokenizer(tmp_path / "pad0", special=special)
        shards = artifacts_of_tests.write_shards(tmp_path / "shards", tokenizer)
        assert "got 0, expected 1" in self.refusal(shards, tokenizer, tmp_path)

    def test_ids_outside_the_vocabulary(self, tokenizer: Artifact, tmp_path: Path) -> None:
        rows = artifacts_of_tests.make_rows(96, 16)
        rows[:, 3] = artifacts_of_tests.VOCAB_SIZE
        shards = artifacts_of_tests.write_shards(tmp_path / "shards", tokenizer, rows=rows)
        with pytest.raises(UserError, match="outside the vocabulary"):
            train(shards, tokenizer, tmp_path / "out")

    def test_a_damaged_shard(self, tokenizer: Artifact, tmp_path: Path) -> None:
        shards = artifacts_of_tests.write_shards(tmp_path / "shards", tokenizer)
        path = tmp_path / "shards" / shards.manifest.splits["train"].files[0].path
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        with pytest.raises(UserError, match=path.name):
            train(shards, tokenizer, tmp_path / "out")

    def test_a_loss_that_is_no_number(
        self, shards: Artifact, tokenizer: Artifact, tmp_path: Path
    ) -> None:
        settings = {"peak_learning_rate": 0.99, "weight_decay": 1e30, "warmup_steps": 0}
        with pytest.raises(UserError, match=r"step \d+: has a loss or a gradient"):
            train(shards, tokenizer, tmp_path / "out", **settings)


def test_an_artifact_of_another_type_is_refused(
    shards: Artifact, tokenizer: Artifact, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"clozeflow\.Tokenizer"):
        train(tokenizer, tokenizer, tmp_path / "out")
    assert not artifacts.is_finished(str(tmp_path / "out"))
