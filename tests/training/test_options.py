"""Validation, best weights, stopping early, forks, profiles, times, and devices that are away."""

import json
from pathlib import Path

import pytest
import tensorflow as tf
from safetensors.numpy import load_file

from clozeflow.artifacts import Artifact, Manifest
from clozeflow.errors import UserError
from clozeflow.registry import STAGES
from clozeflow.stages import run_stage
from clozeflow.training import build, checks, data, devices, flops, loop
from clozeflow.training.account import Item, TimeAccount
from clozeflow.training.config import Distribution, TrainConfig
from clozeflow.training.masking import MaskingRule
from clozeflow.training.model import SIZES, Preset, preset_config
from clozeflow.training.progress import Progress, Validation
from clozeflow.training.weights import open_masked_lm


def train(shards: Artifact, tokenizer: Artifact, output: Path, **settings) -> Manifest:
    defaults = {"num_train_steps": 12, "global_batch_size": 16, "log_every_steps": 4}
    config = TrainConfig(**{**defaults, "warmup_steps": 1, **settings})
    inputs = {"shards": shards.uri, "tokenizer": tokenizer.uri}
    return run_stage(STAGES["train"], config, inputs=inputs, output=str(output))


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def loss_of(model: Path, shards: Artifact) -> float:
    """An exported model's loss on the validation split's questions, by the stock model."""
    network, _ = open_masked_lm(model)
    rule = MaskingRule.for_tokenizer(build.load_tokenizer(model), rate=0.15, seq_len=16)
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    losses = []
    for batch in data.validation_batches(strategy, shards, rule=rule, batch_size=7):
        logits = network(batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        at_questions = tf.gather(logits, batch["masked_positions"], batch_dims=1)
        of_labels = tf.gather(tf.nn.log_softmax(at_questions), batch["masked_labels"], batch_dims=2)
        losses += (-of_labels[batch["masked_weights"] > 0]).numpy().tolist()
    return sum(losses) / len(losses)


class TestValidation:
    def test_it_is_recorded_and_changes_nothing(
        self, shards: Artifact, tokenizer: Artifact, tmp_path: Path
    ) -> None:
        plain = train(shards, tokenizer, tmp_path / "plain")
        validated = train(shards, tokenizer, tmp_path / "validated", validate_every_steps=4)
        assert validated.fingerprint == plain.fingerprint
        rows = lines(tmp_path / "validated" / "validation.jsonl")
        assert [row["step"] for row in rows] == [4, 8, 12]
        assert rows[-1]["loss"] == pytest.approx(loss_of(tmp_path / "validated", shards), rel=1e-5)
        account = json.loads((tmp_path / "validated" / "time_account.json").read_text())
        assert account["validation"] > 0 and account["compile"] > 0 and account["step"] > 0
        assert account["startup"] > 0 and account["export"] > 0
        assert 0 < account["goodput"] < 1

    def test_the_best_weights_are_kept_and_too_many_worse_ones_stop_the_run(
        self,
        shards: Artifact,
        tokenizer: Artifact,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("AIP_CHECKPOINT_DIR", str(tmp_path / "saved"))
        # So high a rate that the model becomes worse from some step on.
        settings = {"peak_learning_rate": 0.3, "schedule": "inverse_root", "num_train_steps": 60}
        stopped = train(
            shards,
            tokenizer,
            tmp_path / "best",
            **settings,
            checkpoint_every_steps=1,
            keep_checkpoints=60,
            validate_every_steps=1,
            keep="best",
            early_stopping_patience=5,
        )
        rows = lines(tmp_path / "best" / "validation.jsonl")
        best = min(rows, key=lambda row: row["loss"])
        assert stopped.metrics["best_validation_step"] == best["step"] == len(rows) - 5
        assert len(rows) == stopped.properties["num_train_steps"] < 60
        saved = next((tmp_path / "saved").glob(f"*/step-{best['step']:08d}.safetensors"))
        name = "roberta/embeddings/word_embeddings/weight:0"
        kept = load_file(tmp_path / "best" / "model.safetensors")
        in_pytorch = "roberta.embeddings.word_embeddings.weight"
        assert (kept[in_pytorch] == load_file(saved)[name]).all()

    def test_it_needs_a_split(self, shards: Artifact) -> None:
        config = TrainConfig(validate_every_steps=5)
        splits = {"train": shards.manifest.splits["train"]}
        manifest = Manifest(**{**vars(shards.manifest), "splits": splits})
        with pytest.raises(UserError, match="needs a validation split"):
            checks.check_validation(config, Artifact(uri="there", manifest=manifest))

    def test_without_it_there_is_no_best(self) -> None:
        with pytest.raises(UserError, match="--validate-every-steps"):
            TrainConfig(keep="best")

    def test_patience_counts_validations_since_the_best(self) -> None:
        config = TrainConfig(
            num_train_steps=9, warmup_steps=1, validate_every_steps=1, early_stopping_patience=2
        )
        progress = Progress(step=3)
        for step, loss in enumerate((3.0, 2.0, 2.0), 1):
            progress.validations.append(Validation(step=step, loss=loss, masked_accuracy=0.1))
        assert progress.best == progress.validations[1] and not progress.is_done(config)
        progress.validations.append(Validation(step=4, loss=2.5, masked_accuracy=0.1))
        assert progress.is_done(config)


class TestOtherSettings:
    """Half of a run is done; then a setting changes."""

    @pytest.fixture
    def begun(
        self,
        shards: Artifact,
        tokenizer: Artifact,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Path:
        class Killed(BaseException):
            pass

        def killed_later(*_: object) -> None:
            raise Killed

        with monkeypatch.context() as patch:
            patch.setattr("clozeflow.training.stage._export", killed_later)
            with pytest.raises(Killed):
                train(shards, tokenizer, tmp_path / "out")
        return tmp_path / "out"

    def test_they_are_refused_with_the_difference(
        self, begun: Path, shards: Artifact, tokenizer: Artifact
    ) -> None:
        with pytest.raises(UserError, match=r"weight_decay is 0\.01, asked for 0\.5") as caught:
            train(shards, tokenizer, begun, weight_decay=0.5)
        assert "--fork" in str(caught.value)
        assert (begun / "training.jsonl").is_file()

    def test_what_does_not_shape_the_result_may_change(
        self, begun: Path, shards: Artifact, tokenizer: Artifact
    ) -> None:
        assert train(shards, tokenizer, begun, checkpoint_every_steps=5).metrics["train_loss"] > 0

    def test_a_fork_goes_on_with_them(
        self, begun: Path, shards: Artifact, tokenizer: Artifact
    ) -> None:
        settings = {"num_train_steps": 16, "fork": True}
        forked = train(shards, tokenizer, begun, **settings)
        assert [row["step"] for row in lines(begun / "training.jsonl")] == [4, 8, 12, 16]
        assert train(shards, tokenizer, begun, **settings).fingerprint == forked.fingerprint


def test_steps_are_profiled_for_tensorboard(
    shards: Artifact, tokenizer: Artifact, tmp_path: Path
) -> None:
    train(shards, tokenizer, tmp_path / "out", profile_steps="5:6")
    assert list((tmp_path / "out" / "logs").rglob("*.xplane.pb"))


def test_vertex_names_folders_for_logs_and_checkpoints(
    shards: Artifact, tokenizer: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIP_TENSORBOARD_LOG_DIR", str(tmp_path / "board"))
    monkeypatch.setenv("AIP_CHECKPOINT_DIR", str(tmp_path / "saved"))
    train(shards, tokenizer, tmp_path / "out")
    assert list((tmp_path / "board").glob("events.*"))
    assert list((tmp_path / "saved").rglob("step-00000012.safetensors"))


def test_the_schedule_is_drawn_before_the_first_step(
    shards: Artifact, tokenizer: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(*_: object) -> None:
        assert (tmp_path / "out" / "plots" / "schedule.png").is_file()
        raise InterruptedError

    monkeypatch.setattr(loop, "_run_steps", check)
    with pytest.raises(InterruptedError):
        train(shards, tokenizer, tmp_path / "out")


class TestTimes:
    def test_goodput_is_the_share_of_steps_without_their_waiting(self) -> None:
        account = TimeAccount({})
        for item, seconds in ((Item.COMPILE, 5.0), (Item.STEP, 10.0), (Item.DATA_WAIT, 2.0)):
            account.add(item, seconds)
        account.add(Item.LOST_WORK, 1.0)
        summary = account.summary()
        assert summary["total"] == 16.0
        assert summary["goodput"] == 8.0 / 16.0

    def test_flops_of_a_large_model_are_near_six_for_each_weight_and_token(self) -> None:
        config = preset_config(Preset.LARGE)
        size = SIZES[Preset.LARGE]
        num_weights = 12 * size.num_layers * size.hidden_size**2
        config.vocab_size = 50_304
        found = flops.step_flops(config, num_examples=8, seq_len=128, num_masked_positions=19)
        assert 1.0 < found / (6 * num_weights * 8 * 128) < 1.1


class TestDevicesElsewhere:
    @pytest.mark.parametrize("name", ["", "grpc://127.0.0.1:9"])
    def test_a_dead_tpu_is_told_within_a_minute(self, name: str) -> None:
        with pytest.raises(UserError, match="does not answer"):
            devices.make_strategy(Distribution.TPU, tpu_name=name)

    def test_a_remote_tpu_cannot_read_this_disk(
        self, shards: Artifact, tokenizer: Artifact, tmp_path: Path
    ) -> None:
        with pytest.raises(UserError, match="on this machine, where TPU 'far-away' cannot read"):
            train(shards, tokenizer, tmp_path / "out", tpu_name="far-away")
