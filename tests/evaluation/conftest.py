"""Artifacts that many tests read; they are made once and never changed."""

from pathlib import Path

import pytest

from clozeflow.artifacts import Artifact
from clozeflow.evaluation.models import MaskedLanguageModel, open_model
from tests.evaluation import fixtures
from tests.shards import fixtures as shard_fixtures


@pytest.fixture(scope="session")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    folder: Path = tmp_path_factory.mktemp("evaluation-shards")
    return shard_fixtures.make_shards(
        folder / "shards",
        corpus=shard_fixtures.small_corpus(folder / "corpus"),
        tokenizer=shard_fixtures.write_tokenizer(folder / "tokenizer"),
        seq_len=fixtures.SEQ_LEN,
    )


@pytest.fixture(scope="session")
def model(shards: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return fixtures.model_artifact(tmp_path_factory.mktemp("evaluation-model") / "model", shards)


@pytest.fixture(scope="session")
def opened(model: Artifact) -> MaskedLanguageModel:
    return open_model(model.uri)


@pytest.fixture(scope="session")
def evaluation(model: Artifact, shards: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished Evaluation with the default settings but for a batch that does not divide."""
    output = tmp_path_factory.mktemp("evaluation") / "evaluation"
    fixtures.evaluate(output, model=model, shards=shards, batch_size=7)
    return output
