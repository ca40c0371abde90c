"""One corpus of speeches and one tokenizer of each algorithm, made once for all tests here."""

import pytest

from clozeflow.artifacts import Artifact
from clozeflow.tokenizer.config import Algorithm
from tests.tokenizer import fixtures


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> str:
    return fixtures.speech_corpus(tmp_path_factory.mktemp("tokenizer") / "corpus")


@pytest.fixture(scope="session", params=list(Algorithm))
def artifact(request, corpus, tmp_path_factory) -> Artifact:
    """A finished Tokenizer of each algorithm in turn."""
    output = tmp_path_factory.mktemp("tokenizer") / "tokenizer"
    return fixtures.train(corpus, output, algorithm=request.param)


@pytest.fixture(scope="session")
def unigram(corpus, tmp_path_factory) -> Artifact:
    return fixtures.train(corpus, tmp_path_factory.mktemp("tokenizer") / "unigram")
