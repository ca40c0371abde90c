"""What is counted while documents are encoded: for the report."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa

from clozeflow.shards import arrow

BINS_PER_DOUBLING = 4


@dataclasses.dataclass(kw_only=True)
class Statistics:
    """Counts of some documents, which add up."""

    num_documents: int = 0
    num_document_tokens: int = 0
    num_unknown_tokens: int = 0
    text_bytes: int = 0
    num_compared: int = 0
    """Documents whose ids were compared with those of `tokenizers`."""
    documents_by_length: Counter[str] = dataclasses.field(default_factory=Counter)
    """Documents by `length_bin` of their tokens."""
    tokens_by_source: Counter[str] = dataclasses.field(default_factory=Counter)
    documents_by_source: Counter[str] = dataclasses.field(default_factory=Counter)

    def count(self, sources: pa.StringArray, lengths: np.ndarray) -> None:
        """Counts documents of these sources and numbers of tokens."""
        self.num_documents += len(lengths)
        self.num_document_tokens += int(lengths.sum())
        bins, counts = np.unique(_length_bins(lengths), return_counts=True)
        self.documents_by_length.update(dict(zip(map(str, bins), counts.tolist(), strict=True)))
        encoded = sources.dictionary_encode()
        chosen = arrow.numbers(encoded.indices)
        names = encoded.dictionary.to_pylist()
        tokens = np.bincount(chosen, weights=lengths, minlength=len(names)).astype(np.int64)
        documents = np.bincount(chosen, minlength=len(names))
        self.tokens_by_source.update(dict(zip(names, tokens.tolist(), strict=True)))
        self.documents_by_source.update(dict(zip(names, documents.tolist(), strict=True)))

    def to_dict(self) -> dict[str, Any]:
        """The counts as JSON-serialisable values."""
        return {
            name: dict(sorted(value.items())) if isinstance(value, Counter) else value
            for name, value in vars(self).items()
        }

    @classmethod
    def total(cls, parts: Iterable[Mapping[str, Any]]) -> Self:
        """The sum of what `to_dict` gave of several parts."""
        total = cls()
        for part in parts:
            for name, value in part.items():
                if isinstance(value, Mapping):
                    getattr(total, name).update(value)
                else:
                    setattr(total, name, getattr(total, name) + value)
        return total


def bin_bounds(length_bin: int) -> tuple[float, float]:
    """From how many tokens, to below how many, a document is counted in this bin."""
    return 2 ** (length_bin / BINS_PER_DOUBLING), 2 ** ((length_bin + 1) / BINS_PER_DOUBLING)


def _length_bins(lengths: np.ndarray) -> np.ndarray:
    """The number of each length's bin: a document without tokens counts as one of one token."""
    return np.floor(np.log2(np.maximum(lengths, 1)) * BINS_PER_DOUBLING + 1e-9).astype(np.int64)
