"""Texts to token ids, straight into arrays; the saved tokenizer.json is the truth."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from clozeflow.errors import UserError
from clozeflow.shards import arrow, chunks
from clozeflow.shards.chunks import Encoded, EncodeTexts
from clozeflow.shards.sentencepiece_words import HIDDEN, SentencePieceWords
from clozeflow.tokenizer import loading


class Encoder:
    """A tokenizer, applied to documents by the fastest way that gives its own ids."""

    def __init__(self, definition: Mapping[str, Any]) -> None:
        """Opens the tokenizer.

        Args:
            definition: The content of a `tokenizer.json`, as `tokenizers` itself writes it.
        """
        self._tokenizer = Tokenizer.from_str(json.dumps(definition))
        self._tokenizer.encode_special_tokens = True
        self.vocab_size = max(self._tokenizer.get_vocab().values()) + 1
        self._encode_distinct: EncodeTexts = self.encode_plainly
        self.method = "tokenizers, document by document"
        self._by_words = chunks.words_are_independent(definition)
        if self._by_words:
            self.method = "tokenizers, each distinct word once"
            if SentencePieceWords.serves(definition):
                self._encode_distinct = SentencePieceWords(definition, self.encode_plainly)
                self.method = "SentencePiece, each distinct word once"

    def encode(self, texts: pa.StringArray) -> Encoded:
        """The ids of each text, without special tokens."""
        if self._by_words:
            return chunks.encode_by_chunks(texts, self._encode_distinct)
        return self.encode_plainly(texts)

    def encode_plainly(self, texts: pa.StringArray) -> Encoded:
        """The same by `tokenizers` alone: what the other ways are compared with."""
        encodings = self._tokenizer.encode_batch_fast(texts.to_pylist(), add_special_tokens=False)
        ids = [np.array(encoding.ids, np.int32) for encoding in encodings]
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        return np.concatenate([np.empty(0, np.int32), *ids]), lengths


def check_sample(
    encoder: Encoder, texts: pa.StringArray, encoded: Encoded, sample: np.ndarray
) -> None:
    """Compares some documents' ids with those that `tokenizers` gives.

    Args:
        encoder: What encoded them.
        texts: D documents.
        encoded: Their ids.
        sample: Indices of the documents to compare.

    Raises:
        UserError: The first document that differs.
    """
    truth = encoder.encode_plainly(texts.take(arrow.indices(sample)))
    for place, index in enumerate(sample.tolist()):
        got, expected = _ids_of(encoded, index), _ids_of(truth, place)
        if not np.array_equal(got, expected):
            raise _difference(encoder, texts[index].as_py(), got, expected)


def _ids_of(encoded: Encoded, index: int) -> np.ndarray:
    ids, lengths = encoded
    start = int(lengths[:index].sum())
    return ids[start : start + lengths[index]]


def _difference(encoder: Encoder, text: str, got: np.ndarray, expected: np.ndarray) -> UserError:
    shared = min(len(got), len(expected))
    place = int(np.argmin(np.append(got[:shared] == expected[:shared], False)))
    return UserError(
        f"the document {text[:60]!r}",
        f"has other ids by {encoder.method!r} than by its tokenizer.json, from token {place} on",
        got=got[place : place + 5].tolist(),
        expected=expected[place : place + 5].tolist(),
        fix="This is a fault of clozeflow: please report it with the tokenizer and the document.",
    )


@functools.lru_cache(maxsize=1)
def encoder(tokenizer_folder: str) -> Encoder:
    """The encoder of a tokenizer, loaded once in each process."""
    # Work is divided among processes already: threads of `tokenizers` would only compete.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    definition = json.loads(loading.load(tokenizer_folder).to_str())
    return Encoder(_without_special_pieces(definition))


def _without_special_pieces(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tokenizer for which a special token's text in a document is text in every case.

    A Unigram model looks for all pieces of its vocabulary, the special ones too, and prefers the
    worst of them to a letter that it does not know. So they are hidden: a control character, which
    no document has, is put before their texts.
    """
    model, added = definition["model"], definition["added_tokens"]
    if model["type"] != "Unigram":
        return definition
    special = {token["content"] for token in added if token["special"]}
    hidden = [[f"{HIDDEN}{p}" if p in special else p, score] for p, score in model["vocab"]]
    return {
        **definition,
        "added_tokens": [token for token in added if not token["special"]],
        "post_processor": None,
        "model": {**model, "vocab": hidden},
    }
