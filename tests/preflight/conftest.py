"""Small shards to plan a run on."""

from tests.training.conftest import shards, tokenizer

__all__ = ["shards", "tokenizer"]
