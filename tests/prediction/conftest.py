"""The small models of the tests of evaluation."""

from tests.evaluation.conftest import corpus, model, opened, shards, tokenizer  # noqa: F401
