"""A share of a corpus's documents, chosen by a hash: the same ones in any order of the work."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator

from clozeflow.artifacts import Artifact
from clozeflow.corpus import reader

_WHOLE = 1 << 64
_BLOCK_CHARS = 1 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """A share of a split's documents; a document is in it or not by its `doc_id` alone."""

    seed: int = 0
    share: float = 1.0
    """The expected share of the text, 0 to 1."""

    @classmethod
    def of(cls, corpus: Artifact, split: str, *, num_bytes: int, seed: int) -> Sample:
        """About `num_bytes` of a split's text (UTF-8), or all of it where there is no more."""
        there = text_bytes(corpus, split)
        return cls(seed=seed, share=min(1.0, num_bytes / there) if there else 1.0)

    def blocks(self, part: str) -> Iterator[list[str]]:
        """The same documents, in lists of about a million characters."""
        block: list[str] = []
        num_chars = 0
        for text in self.texts(part):
            block.append(text)
            num_chars += len(text)
            if num_chars >= _BLOCK_CHARS:
                yield block
                block, num_chars = [], 0
        if block:
            yield block

    def texts(self, part: str) -> Iterator[str]:
        """The documents of a part that are in the sample, in order."""
        if self.share >= 1:
            for batch in reader.read_part(part, batch_size=256):
                yield from batch.column(0).to_pylist()
            return
        for batch in reader.read_part(part, columns=("text", "doc_id"), batch_size=256):
            for text, doc_id in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if self._holds(doc_id):
                    yield text

    def _holds(self, doc_id: str) -> bool:
        digest = hashlib.blake2b(f"{self.seed}:{doc_id}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") < self.share * _WHOLE


def text_bytes(corpus: Artifact, split: str) -> int:
    """The size of a split's documents in UTF-8, as the corpus's manifest says."""
    return corpus.manifest.splits[split].counts["text_bytes"]


def sample_texts(corpus: Artifact, split: str, *, num_bytes: int, seed: int) -> Iterator[str]:
    """About `num_bytes` of the documents of a split; at least the first one."""
    sample = Sample.of(corpus, split, num_bytes=num_bytes, seed=seed)
    found = False
    for part in reader.parts(corpus, split):
        for text in sample.texts(part):
            found = True
            yield text
    if not found:
        yield from (
            text for _, text in zip(range(1), reader.iter_texts(corpus, split), strict=False)
        )
