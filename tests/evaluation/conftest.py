"""Artifacts that many tests read; they are made once and never changed."""

from pathlib import Path

import pytest

from clozeflow.artifacts import Artifact
from clozeflow.evaluation.models import MaskedLanguageModel, open_model
from tests.evaluation import fixtures
from tests.shards import fixtures as shard_fixtures


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return shard_fixtures.small_corpus(tmp_path_factory.mktemp("corpus"))


def made_tokenizer(corpus: Artifact, factory: pytest.TempPathFactory, algorithm: str) -> Artifact:
    folder: Path = factory.mktemp("tokenizer") / algorithm
    return shard_fixtures.make_tokenizer(folder, corpus, algorithm=algorithm)


@pytest.fixture(scope="session")
def tokenizer(corpus: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return made_tokenizer(corpus, tmp_path_factory, "unigram")


@pytest.fixture(scope="session")
def bpe(corpus: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return made_tokenizer(corpus, tmp_path_factory, "bpe")


@pytest.fixture(scope="session")
def wordpiece(corpus: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return made_tokenizer(corpus, tmp_path_factory, "wordpiece")


@pytest.fixture(scope="session")
def shards(
    corpus: Artifact, tokenizer: Artifact, tmp_path_factory: pytest.TempPathFactory
) -> Artifact:
    return shard_fixtures.make_shards(
        tmp_path_factory.mktemp("shards") / "shards",
        corpus=corpus,
        tokenizer=tokenizer,
        seq_len=fixtures.SEQ_LEN,
    )


@pytest.fixture(scope="session")
def model(tokenizer: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return fixtures.model_artifact(tmp_path_factory.mktemp("model") / "model", tokenizer)


@pytest.fixture(scope="session")
def opened(model: Artifact) -> MaskedLanguageModel:
    return open_model(model.uri)


@pytest.fixture(scope="session")
def evaluation(model: Artifact, shards: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished Evaluation with the default settings but for a batch that does not divide."""
    output = tmp_path_factory.mktemp("evaluation") / "evaluation"
    fixtures.evaluate(output, model=model, shards=shards, batch_size=7)
    return output
