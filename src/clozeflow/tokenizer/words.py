"""Counting the words of a corpus: exactly, over independent units, in bounded memory.

A unit counts one part of the corpus and writes its words in buckets, by their form; then each
bucket is added up over the units alone. The table of one unit is spilled when it is full, so that
memory is bounded by the table's limit and by the largest bucket, and not by the corpus.
"""

from __future__ import annotations

import collections
import dataclasses
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from clozeflow import engine, stages, storage
from clozeflow.artifacts import Artifact
from clozeflow.corpus import parquet, reader
from clozeflow.engine import Workers
from clozeflow.tokenizer.normalizer import SPACE_MARK
from clozeflow.tokenizer.normalizer import words as split_words
from clozeflow.tokenizer.sampling import Sample

MAX_WORD_CHARS = 64
"""Longer words (text without spaces) are counted in parts: four times the longest piece."""

CHARS_OF_A_WORD = 16
"""`max_words` counts a longer word as several, so that the table's memory has a bound too."""

_NUM_BUCKETS = 16
_SPILL_WORDS = 500_000
"""Distinct words that one unit holds in memory: about 80 MB."""

_SCHEMA = pa.schema([("word", pa.string()), ("count", pa.int64())])
_STOPS = re.escape("。，、！？；：．…·「」『』（）《》【】,.;:!?()[]{}\"'/\\|&=+-_។៖၊။।")
_PARTS = re.compile(f"[^{_STOPS}]{{1,{MAX_WORD_CHARS}}}[{_STOPS}]{{0,4}}|[{_STOPS}]{{1,8}}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordTable:
    """The most frequent words of a corpus, with how often each occurs.

    A word begins with the space mark; a later part of a word too long to be counted whole does not.
    """

    words: Sequence[str]
    """By falling count, then by word."""
    counts: Sequence[int]
    characters: dict[str, int]
    """Every character of the corpus but white space, and how often it occurs."""
    num_distinct_words: int
    """Of the corpus, kept here or not."""
    num_words: int
    """Occurrences of words in the corpus, kept here or not."""
    num_documents: int
    num_bytes: int
    """Of the documents that were read, in UTF-8."""

    @property
    def kept_share(self) -> float:
        """The share of the corpus's words that are occurrences of a word kept here."""
        return sum(self.counts) / self.num_words


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Unit:
    part: str
    """Location of a corpus part."""
    counts: str
    """Prefix of the locations of the unit's tables."""
    sample: Sample


def count_words(
    corpus: Artifact, *, sample: Sample, max_words: int, workers: Workers, output: str
) -> WordTable:
    """Counts the words of the corpus's train split and keeps the most frequent ones.

    Args:
        corpus: The corpus.
        sample: The documents to read.
        max_words: The most words to keep.
        workers: What counts the parts (see `engine.run_units`).
        output: The stage's output, whose work folder keeps the units' tables.
    """
    folder = storage.join(stages.work_folder(output), "words")
    units = [
        _Unit(part=part, counts=storage.join(folder, f"{index:06d}"), sample=sample)
        for index, part in enumerate(reader.parts(corpus, "train"))
    ]
    results = engine.run_units(
        _count_part,
        units,
        workers=workers,
        description="counting words",
        ledger=stages.unit_ledger(output, "words"),
    )
    tables = [
        f"{unit.counts}-{table:03d}.parquet"
        for unit, result in zip(units, results, strict=True)
        for table in range(result["num_tables"])
    ]
    return _merge(
        tables,
        max_words=max_words,
        characters=_sum_characters([result["characters"] for result in results]),
        num_documents=sum(result["num_documents"] for result in results),
        num_bytes=sum(result["num_bytes"] for result in results),
    )


def long_word_parts(word: str) -> list[str]:
    """A word in parts of about `MAX_WORD_CHARS` at most, cut after punctuation if there is any."""
    return _PARTS.findall(word)


class _Counter:
    """Words of one unit and how often each occurs.

    Long ones are in parts from the start: a line without spaces is one word, and whole lines would
    fill the memory.
    """

    def __init__(self) -> None:
        self.words: collections.Counter[str] = collections.Counter()
        """Words, or the first parts of long ones."""
        self.later_parts: collections.Counter[str] = collections.Counter()

    def __len__(self) -> int:
        return len(self.words) + len(self.later_parts)

    def add(self, words: Sequence[str]) -> None:
        """Counts each word once more."""
        long = [word for word in words if len(word) > MAX_WORD_CHARS]
        if long:
            words = [word for word in words if len(word) <= MAX_WORD_CHARS]
        for word in long:
            first, *rest = long_word_parts(word)
            self.words[first] += 1
            self.later_parts.update(rest)
        self.words.update(words)

    def to_table(self) -> pa.Table:
        """Words with their mark, later parts without, as columns `word` and `count`."""
        words = pa.array(self.words.keys(), pa.string())
        marked = pc.binary_join_element_wise(SPACE_MARK, words, "")
        counts = [pa.array(c.values(), pa.int64()) for c in (self.words, self.later_parts)]
        return pa.table(
            {
                "word": pa.chunked_array([marked, pa.array(self.later_parts.keys(), pa.string())]),
                "count": pa.chunked_array(counts),
            }
        )


def _count_part(unit: _Unit) -> dict[str, Any]:
    counter = _Counter()
    characters = np.zeros(sys.maxunicode + 1, np.int64)
    num_tables = num_documents = num_bytes = 0
    for texts in unit.sample.blocks(unit.part):
        text = " ".join(texts)
        counter.add(split_words(text))
        characters += _count_characters(text)
        num_documents += len(texts)
        num_bytes += len(text.encode()) - len(texts) + 1
        if len(counter) >= _SPILL_WORDS:
            _write_table(f"{unit.counts}-{num_tables:03d}.parquet", counter)
            counter = _Counter()
            num_tables += 1
    if counter:
        _write_table(f"{unit.counts}-{num_tables:03d}.parquet", counter)
        num_tables += 1
    return {
        "num_tables": num_tables,
        "num_documents": num_documents,
        "num_bytes": num_bytes,
        "characters": _named(characters),
    }


def _named(characters: np.ndarray) -> dict[str, int]:
    """Counts by code as counts by character, white space left out."""
    counts = {chr(code): int(characters[code]) for code in np.flatnonzero(characters)}
    return {character: count for character, count in counts.items() if split_words(character)}


def _count_characters(text: str) -> np.ndarray:
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    return np.bincount(codes, minlength=sys.maxunicode + 1)


def _write_table(location: str, counter: _Counter) -> None:
    """Writes words and counts as Parquet, one row group a bucket."""
    table = counter.to_table().combine_chunks()
    buckets = _buckets(table["word"].chunk(0))
    table = table.take(pa.array(np.argsort(buckets, kind="stable")))
    sizes = np.bincount(buckets, minlength=_NUM_BUCKETS)
    with storage.atomic_path(location) as path, pq.ParquetWriter(path, _SCHEMA) as writer:
        for start, size in zip(np.cumsum(sizes) - sizes, sizes, strict=True):
            group = table.slice(int(start), int(size))
            writer.write_table(group, row_group_size=max(len(group), 1))


def _buckets(words: pa.StringArray) -> np.ndarray:
    """int64 [W]: the bucket of each word, from its length, first letter and last byte."""
    offsets = np.frombuffer(words.buffers()[1], np.int32)[: len(words) + 1].astype(np.int64)
    data = np.frombuffer(words.buffers()[2], np.uint8)
    starts, ends = offsets[:-1], offsets[1:]
    first_letter = data[np.minimum(starts + len(SPACE_MARK.encode()), ends - 1)]
    return (first_letter * 5 + data[ends - 1] * 3 + (ends - starts)) % _NUM_BUCKETS


def _merge(
    tables: Sequence[str],
    *,
    max_words: int,
    characters: dict[str, int],
    num_documents: int,
    num_bytes: int,
) -> WordTable:
    kept = _SCHEMA.empty_table()
    num_distinct_words = num_words = 0
    for bucket in range(_NUM_BUCKETS):
        found = _bucket(tables, bucket)
        num_distinct_words += len(found)
        num_words += pc.sum(found["count"]).as_py() or 0
        kept = _most_frequent(pa.concat_tables([kept, found]), max_words)
    return WordTable(
        words=kept["word"].to_pylist(),
        counts=kept["count"].to_pylist(),
        characters=characters,
        num_distinct_words=num_distinct_words,
        num_words=num_words,
        num_documents=num_documents,
        num_bytes=num_bytes,
    )


def _bucket(tables: Sequence[str], bucket: int) -> pa.Table:
    """The words of one bucket, added up over every unit's table of them."""
    found = [_SCHEMA.empty_table()]
    for location in tables:
        with storage.open_read(location) as stream, parquet.open_stream(stream) as file:
            found.append(file.read_row_group(bucket, use_threads=False))
    summed = pa.concat_tables(found).group_by("word").aggregate([("count", "sum")])
    return summed.rename_columns({"count_sum": "count"}).select(_SCHEMA.names)


def _most_frequent(table: pa.Table, max_words: int) -> pa.Table:
    ordered = table.sort_by([("count", "descending"), ("word", "ascending")])
    length = pc.utf8_length(ordered["word"]).to_numpy()
    cost = np.cumsum(-(-length // CHARS_OF_A_WORD))
    return ordered.slice(0, int(np.searchsorted(cost, max_words, side="right")))


def _sum_characters(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: collections.Counter[str] = collections.Counter()
    for characters in parts:
        total.update(characters)
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))
