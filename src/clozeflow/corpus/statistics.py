"""What a corpus holds, measured while its parts are written and added up at the end."""

from __future__ import annotations

import collections
import dataclasses
import functools
import heapq
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clozeflow.corpus import windows

NUM_FREQUENT_WORDS = 50
MAX_SOURCES = 1000
LENGTH_BINS = 32
"""Lengths are counted by powers of two: bin i holds 2^i to 2^(i+1) - 1 bytes."""
_WORDS_HANDED_ON = 1000
"""Of each part: documents are in hash order, so a word that is frequent is so in every part."""
_WORD_SAMPLE_BYTES = 4 << 20
_SLICE_BYTES = 1 << 20


@dataclasses.dataclass(kw_only=True)
class Measures:
    """Counts over documents; those of two sets of documents can be added."""

    num_documents: int = 0
    text_bytes: int = 0
    num_words: int = 0
    """Runs of characters between white space."""
    lengths: list[int] = dataclasses.field(default_factory=lambda: [0] * LENGTH_BINS)
    """Documents by the power of two of their bytes."""
    characters: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)
    """Code point to count."""
    words: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    """The most frequent words, counted in a sample of each part."""
    sources: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    """Documents by source."""

    def add(self, documents: pa.Table) -> None:
        """Counts documents; memory is bounded by their longest."""
        counts = documents.column("source").value_counts().to_pylist()
        self.sources.update({count["values"]: count["counts"] for count in counts})
        for chunk in documents.column("text").chunks:
            for texts in windows.slices(chunk, _SLICE_BYTES):
                self._add_texts(texts)

    def _add_texts(self, texts: pa.StringArray) -> None:
        sizes = pc.binary_length(texts).to_numpy()
        text = "\n".join(texts.to_pylist())
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        if self.text_bytes < _WORD_SAMPLE_BYTES:
            self.words.update(text.split())
        self.num_documents += len(texts)
        self.text_bytes += int(sizes.sum())
        self.num_words += _count_words(points)
        bins = np.bincount(np.log2(sizes).astype(np.int64), minlength=LENGTH_BINS)
        self.lengths = [a + b for a, b in zip(self.lengths, bins.tolist(), strict=True)]
        counts = np.bincount(points)
        counts[ord("\n")] -= len(texts) - 1  # the joints
        self.characters.update({p: int(counts[p]) for p in np.flatnonzero(counts).tolist()})

    def merge(self, other: Measures) -> None:
        """Adds another's counts."""
        self.num_documents += other.num_documents
        self.text_bytes += other.text_bytes
        self.num_words += other.num_words
        self.lengths = [a + b for a, b in zip(self.lengths, other.lengths, strict=True)]
        self.characters.update(other.characters)
        self.words.update(other.words)
        self.sources.update(other.sources)

    def to_dict(self) -> dict[str, Any]:
        """The counts as JSON-serialisable values."""
        return {
            **self.__dict__,
            "characters": {str(point): count for point, count in sorted(self.characters.items())},
            "words": most_common(self.words, _WORDS_HANDED_ON),
            "sources": dict(sorted(self.sources.items())),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The reverse of `to_dict`."""
        counters = {
            "characters": collections.Counter({int(k): v for k, v in value["characters"].items()}),
            "words": collections.Counter(value["words"]),
            "sources": collections.Counter(value["sources"]),
        }
        return cls(**{**value, **counters})


def merged(measures: Iterable[Measures]) -> Measures:
    """The sum of measures."""
    total = Measures()
    for one in measures:
        total.merge(one)
    return total


def most_common(counter: Mapping[str, int], number: int) -> dict[str, int]:
    """The most frequent, ties in the order of the alphabet."""
    return dict(heapq.nsmallest(number, counter.items(), key=lambda item: (-item[1], item[0])))


def scripts(characters: Mapping[int, int]) -> dict[str, int]:
    """Characters by script, the most frequent first.

    A letter's script is the first word of its Unicode name (Latin, Cyrillic, Cjk, …); other
    characters are counted by kind.
    """
    found: collections.Counter[str] = collections.Counter()
    for point, count in characters.items():
        found[_script(chr(point))] += count
    return most_common(found, len(found))


def summary(
    *,
    totals: Mapping[str, int],
    dropped: Mapping[str, int],
    read_by_source: Mapping[str, int],
    splits: Mapping[str, Measures],
    near_duplicates: Mapping[str, Any],
    contamination: Mapping[str, Any],
    repeated: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """The content of `statistics.json`: JSON-serialisable, the same for the same corpus.

    Args:
        totals: Counts over all that was read.
        dropped: Documents by the reason why they were dropped, blank ones apart.
        read_by_source: Documents that were read, by source.
        splits: What each split holds.
        near_duplicates: How many by split, and examples.
        contamination: How many documents stand in two splits, by those, and examples.
        repeated: The documents with the most copies.
    """
    total = merged(splits.values())
    return {
        "properties": {
            **_sizes(total),
            **_found(totals, dropped),
            **_shares(totals, dropped, total, near_duplicates["by_split"]),
            "num_contaminated": sum(contamination["by_splits"].values()),
        },
        "splits": {name: _sizes(split) for name, split in splits.items()},
        "dropped": dict(dropped),
        "length_histogram": _histogram(total.lengths),
        "scripts": scripts(total.characters),
        "frequent_words": most_common(total.words, NUM_FREQUENT_WORDS),
        "sources": {
            name: {"num_read": read_by_source.get(name, 0), "num_documents": number}
            for name, number in most_common(total.sources, MAX_SOURCES).items()
        },
        "num_sources": len(read_by_source),
        "near_duplicates": dict(near_duplicates),
        "contamination": dict(contamination),
        "repeated": list(repeated),
    }


def _sizes(measures: Measures) -> dict[str, int]:
    return {
        "num_documents": measures.num_documents,
        "num_words": measures.num_words,
        "text_bytes": measures.text_bytes,
        "num_characters": len(measures.characters),
    }


def _found(totals: Mapping[str, int], dropped: Mapping[str, int]) -> dict[str, int]:
    return {
        "num_read": totals["num_read"],
        "num_blank": totals["num_blank"],
        "num_dropped": sum(dropped.values()),
        "num_duplicates": dropped["duplicate"],
        "num_bad_bytes": totals["num_bad_bytes"],
        "num_controls": totals["num_controls"],
    }


def _shares(
    totals: Mapping[str, int],
    dropped: Mapping[str, int],
    total: Measures,
    near_by_split: Mapping[str, int],
) -> dict[str, float]:
    num_texts = totals["num_read"] - totals["num_blank"]
    num_near = sum(near_by_split.values())
    num_distinct = total.num_documents + dropped.get("near_duplicate", 0)
    letters = sum(n for p, n in total.characters.items() if unicodedata.category(chr(p))[0] in "LM")
    return {
        "num_near_duplicates": num_near,
        "dropped_share": round(sum(dropped.values()) / num_texts, 6),
        "duplicate_share": round(dropped["duplicate"] / num_texts, 6),
        "near_duplicate_share": round(num_near / max(1, num_distinct), 6),
        "letter_share": round(letters / max(1, total.characters.total()), 6),
        "mean_document_bytes": round(total.text_bytes / max(1, total.num_documents), 3),
    }


_KINDS = {
    "N": "numbers",
    "P": "punctuation",
    "S": "symbols",
    "Z": "spaces",
    "C": "format and unassigned",
}


def _script(character: str) -> str:
    category = unicodedata.category(character)
    if character in "\n\t":
        return _KINDS["Z"]
    if category[0] in "LM":
        return unicodedata.name(character, "UNKNOWN").split()[0].split("-")[0].capitalize()
    return _KINDS[category[0]]


def _count_words(points: np.ndarray) -> int:
    """Words in code points: places where the start or white space is followed by something."""
    is_word = ~_is_space()[points]
    return int(is_word[:1].sum() + (is_word[1:] & ~is_word[:-1]).sum())


@functools.cache
def _is_space() -> np.ndarray:
    """Bool [0x110000]: which code points are white space."""
    table = np.zeros(0x110000, bool)
    table[[point for point in range(0x3001) if chr(point).isspace()]] = True
    return table


def _histogram(lengths: list[int]) -> dict[str, int]:
    """Lower bound in bytes to documents, without the empty bins at both ends."""
    filled = [index for index, count in enumerate(lengths) if count]
    return {str(1 << i): lengths[i] for i in range(filled[0], filled[-1] + 1)} if filled else {}
