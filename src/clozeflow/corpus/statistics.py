"""What a corpus holds, measured while its parts are written and added up at the end."""

from __future__ import annotations

import collections
import dataclasses
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TOP_WORDS = 50
_WORDS_HANDED_ON = 1000
"""Of each part: documents are in hash order, so a word that is frequent is so in every part."""
_WORD_SAMPLE_BYTES = 4 << 20
_MAX_CODE_POINT = 0x110000
LENGTH_BINS = 32
"""Lengths are counted by powers of two: bin i holds 2^i to 2^(i+1) - 1 bytes."""


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
        """Counts documents (a row group: it is decoded as a whole)."""
        texts = documents.column("text").combine_chunks()
        sizes = pc.binary_length(texts).to_numpy()
        text = b"\n".join(texts.cast(pa.binary()).to_pylist()).decode("utf-8")
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        if self.text_bytes < _WORD_SAMPLE_BYTES:
            self.words.update(text.split())
        self.num_documents += len(texts)
        self.text_bytes += int(sizes.sum())
        self.num_words += _count_words(points)
        bins = np.bincount(np.log2(sizes).astype(np.int64), minlength=LENGTH_BINS)
        self.lengths = [int(a + b) for a, b in zip(self.lengths, bins, strict=True)]
        counts = np.bincount(points)
        for point in np.flatnonzero(counts).tolist():
            self.characters[point] += int(counts[point])
        self.characters[ord("\n")] -= max(0, len(texts) - 1)
        self.sources.update(
            {
                v["values"]: v["counts"]
                for v in documents.column("source").value_counts().to_pylist()
            }
        )

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
            **dataclasses.asdict(self),
            "characters": {str(k): v for k, v in sorted(self.characters.items()) if v},
            "words": dict(most_common(self.words, _WORDS_HANDED_ON)),
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


def most_common(counter: Mapping[str, int], number: int) -> list[tuple[str, int]]:
    """The most frequent, ties in the order of the alphabet."""
    return sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:number]


def scripts(characters: Mapping[int, int]) -> dict[str, int]:
    """Characters by script, the most frequent first.

    A letter's script is the first word of its Unicode name (LATIN, CYRILLIC, CJK, …); other
    characters are counted by kind.
    """
    found: collections.Counter[str] = collections.Counter()
    for point, count in characters.items():
        found[_script(chr(point))] += count
    return dict(most_common(found, len(found)))


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
    """Words in code points: places where white space or the start is followed by something."""
    is_space = np.isin(points, _SPACES)
    starts = ~is_space
    starts[1:] &= is_space[:-1]
    return int(starts.sum())


_SPACES = np.array(
    [p for p in range(0x3001) if chr(p).isspace()],
    np.uint32,
)


def summary(read: Mapping[str, int], splits: Mapping[str, Measures]) -> dict[str, Any]:
    """The content of `statistics.json`: JSON-serialisable, the same for the same corpus."""
    total = merged(splits.values())
    properties = {
        "num_documents": total.num_documents,
        "text_bytes": total.text_bytes,
        "num_words": total.num_words,
        "num_characters": len(total.characters),
        "num_duplicates": read["num_duplicates"],
        "num_blank": read["num_blank"],
    }
    return {
        "properties": properties,
        "read": dict(read),
        "splits": {
            name: {
                "num_documents": split.num_documents,
                "num_words": split.num_words,
                "text_bytes": split.text_bytes,
            }
            for name, split in splits.items()
        },
        "length_histogram": _histogram(total.lengths),
        "scripts": scripts(total.characters),
        "frequent_words": dict(most_common(total.words, TOP_WORDS)),
        "sources": dict(most_common(total.sources, len(total.sources))),
    }


def _histogram(lengths: list[int]) -> dict[str, int]:
    """Lower bound in bytes to documents, without the empty bins at both ends."""
    filled = [index for index, count in enumerate(lengths) if count]
    return {f"{1 << i:,}": lengths[i] for i in range(filled[0], filled[-1] + 1)} if filled else {}
