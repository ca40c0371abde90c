"""A model that learned something: far above the guesses; its weights shuffled: no better than they.

It is trained on a language whose texts are one word, said again and again, some more often than
others: without context one can know how frequent each word is, and with context all of it.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from clozeflow.artifacts import ArtifactType, open_artifact
from clozeflow.registry import STAGES
from clozeflow.stages import run_stage
from tests.evaluation import fixtures
from tests.training import artifacts_of_tests

ROOT = Path(__file__).parents[2]


NUM_SPOKEN = 40


def make_rows(num_examples: int, seq_len: int, *, seed: int = 0) -> np.ndarray:
    """int32 [N, T]: `<s>`, one word throughout, `</s>`; words by Zipf's law."""
    weights = 1 / np.arange(1, NUM_SPOKEN + 1)
    words = np.random.default_rng(seed).choice(
        NUM_SPOKEN, size=num_examples, p=weights / weights.sum()
    )
    rows = np.repeat(words[:, None] + len(artifacts_of_tests.SPECIAL), seq_len, axis=1)
    rows[:, 0], rows[:, -1] = 0, 2
    return rows.astype(np.int32)


@pytest.fixture(scope="module")
def language(tmp_path_factory):
    """Tokenizer and shards."""
    folder = tmp_path_factory.mktemp("language")
    tokenizer = artifacts_of_tests.write_tokenizer(folder / "tokenizer")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(artifacts_of_tests, "make_rows", make_rows)
        shards = artifacts_of_tests.write_shards(
            folder / "shards", tokenizer, num_examples=512, num_validation_examples=200
        )
    return tokenizer, shards


@pytest.fixture(scope="module")
def trained(language, tmp_path_factory):
    """A model of the language."""
    tokenizer, shards = language
    output = str(tmp_path_factory.mktemp("trained") / "model")
    stage = STAGES["train"]
    settings = stage.config(
        num_train_steps=200, global_batch_size=32, peak_learning_rate=5e-3, dropout_rate=0.0
    )
    inputs = {"shards": shards.uri, "tokenizer": tokenizer.uri}
    run_stage(stage, settings, inputs=inputs, output=output)
    return open_artifact(output, ArtifactType.MASKED_LM, name="model")


def shuffled(trained, folder: Path):
    """The model with the numbers of each weight in another order."""
    generator = np.random.default_rng(0)
    fixtures.copy_tokenizer(folder, trained)
    weights = safetensors.numpy.load_file(trained.path("model.safetensors"))
    for name, array in weights.items():
        weights[name] = generator.permutation(array.ravel()).reshape(array.shape)
    safetensors.numpy.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return fixtures.finish_model(folder, trained.manifest.input("tokenizer").fingerprint)


def test_shuffled_weights_score_no_better_than_the_guesses(trained, language, tmp_path):
    _, shards = language
    learned = fixtures.evaluate(tmp_path / "a", model=trained, shards=shards).metrics
    other = shuffled(trained, tmp_path / "m")
    lost = fixtures.evaluate(tmp_path / "b", model=other, shards=shards)
    assert learned["loss"] < 0.5 * learned["unigram_loss"]
    assert learned["mask_accuracy"] > 2 * learned["most_frequent_token_accuracy"]
    assert lost.metrics["loss"] >= learned["unigram_loss"]
    # No more right answers than the guess has, within three standard deviations.
    guess = learned["most_frequent_token_accuracy"]
    deviation = np.sqrt(guess * (1 - guess) / lost.properties["num_questions"])
    assert lost.metrics["masked_accuracy"] <= guess + 3 * deviation


@pytest.mark.parametrize("num_devices", [2])
def test_the_number_of_devices_changes_nothing(trained, language, tmp_path, num_devices):
    _, shards = language
    before = fixtures.evaluate(tmp_path / "a", model=trained, shards=shards).metrics
    command = [sys.executable, "-m", "tests.evaluation.devices", str(num_devices)]
    subprocess.run([*command, trained.uri, shards.uri, str(tmp_path / "b")], cwd=ROOT, check=True)
    after = json.loads((tmp_path / "b" / "manifest.json").read_text())["metrics"]
    assert after == pytest.approx(before, rel=1e-6, abs=1.1e-6)
