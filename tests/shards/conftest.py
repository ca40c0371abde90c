"""Artifacts that many tests read; they are made once and never changed."""

from pathlib import Path

import pytest

from clozeflow.artifacts import Artifact
from tests.shards import fixtures


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return fixtures.small_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def tokenizer(corpus: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return fixtures.make_tokenizer(tmp_path_factory.mktemp("tokenizer") / "unigram", corpus)


@pytest.fixture(scope="session")
def shards(
    corpus: Artifact, tokenizer: Artifact, tmp_path_factory: pytest.TempPathFactory
) -> Artifact:
    folder: Path = tmp_path_factory.mktemp("shards") / "made"
    return fixtures.make_shards(folder, corpus=corpus, tokenizer=tokenizer, examples_per_shard=64)
