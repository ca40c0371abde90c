"""Reading a Corpus artifact: its splits are Parquet parts of documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from clozeflow.artifacts import Artifact
from clozeflow.corpus import parquet

COLUMNS = ("text", "doc_id", "source")


def parts(corpus: Artifact, split: str) -> list[str]:
    """The locations of a split's Parquet files, in order; none if the corpus has no such split."""
    if split not in corpus.manifest.splits:
        return []
    return [corpus.path(file.path) for file in corpus.manifest.splits[split].files]


def read_part(
    location: str, *, columns: Sequence[str] = ("text",), batch_size: int = 4096
) -> Iterator[pa.RecordBatch]:
    """The documents of one part, a batch at a time; memory is bounded by a row group.

    Raises:
        UserError: The file is damaged.
    """
    with parquet.opened(location, fix="Make the corpus again, in another folder.") as file:
        yield from parquet.batches(file, batch_size=batch_size, columns=columns)


def iter_texts(corpus: Artifact, split: str) -> Iterator[str]:
    """Every document's text in a split, in order."""
    for location in parts(corpus, split):
        for batch in read_part(location):
            yield from batch.column(0).to_pylist()
