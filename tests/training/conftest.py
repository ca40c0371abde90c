"""Artifacts that the tests train on, made once."""

import pytest

from clozeflow.artifacts import Artifact
from tests.training import artifacts_of_tests


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return artifacts_of_tests.write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "words")


@pytest.fixture(scope="session")
def shards(tokenizer: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return artifacts_of_tests.write_shards(tmp_path_factory.mktemp("shards") / "rows", tokenizer)
