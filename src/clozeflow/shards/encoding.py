"""Texts to token ids, straight into arrays; the saved tokenizer.json is the truth."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from tokenizers import Tokenizer

from clozeflow import storage

Encoded = tuple[np.ndarray, np.ndarray]
"""The ids of documents end to end (int32), and the number of ids in each document (int64)."""


class Encoder(Protocol):
    """Something that encodes documents, without special tokens."""

    vocab_size: int

    def encode(self, texts: Sequence[str]) -> Encoded:
        """The ids of each text."""


class PlainEncoder:
    """The `tokenizers` library: any tokenizer, and what the others are compared with."""

    def __init__(self, folder: str) -> None:
        self._tokenizer = _load(folder)
        self.vocab_size = self._tokenizer.get_vocab_size()

    def encode(self, texts: Sequence[str]) -> Encoded:
        """The ids of each text."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        ids = [np.array(encoding.ids, np.int32) for encoding in encodings]
        return np.concatenate([np.empty(0, np.int32), *ids]), np.array([len(i) for i in ids])


@functools.lru_cache(maxsize=1)
def encoder(tokenizer_folder: str) -> Encoder:
    """The encoder of a tokenizer, loaded once in each process."""
    return PlainEncoder(tokenizer_folder)


def _load(folder: str) -> Tokenizer:
    """The tokenizer without special tokens: their texts are ordinary text in a document."""
    value = json.loads(storage.read_text(storage.join(folder, "tokenizer.json")))
    special = {token["content"] for token in value["added_tokens"] if token["special"]}
    value["added_tokens"] = [t for t in value["added_tokens"] if not t["special"]]
    value["post_processor"] = None
    vocab = value["model"]["vocab"]
    # Pieces of the model too may bear such a text: a control character, which no document has,
    # hides them. The ids stay as they are.
    if isinstance(vocab, list):
        value["model"]["vocab"] = [[_hidden(p) if p in special else p, s] for p, s in vocab]
    else:
        unknown = value["model"].get("unk_token")
        value["model"]["vocab"] = {
            (_hidden(p) if p in special and p != unknown else p): i for p, i in vocab.items()
        }
    return Tokenizer.from_str(json.dumps(value))


def _hidden(piece: str) -> str:
    return "\0" + piece
