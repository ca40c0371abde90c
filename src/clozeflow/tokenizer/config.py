"""Settings of the tokenizer stage."""

from __future__ import annotations

import dataclasses
import enum
from typing import ClassVar

from clozeflow.config import StageConfig


class Algorithm(enum.StrEnum):
    """How the vocabulary is learned and how text is cut."""

    UNIGRAM = "unigram"
    BPE = "bpe"
    """Byte-level, as RoBERTa's own: no text is unknown."""
    WORDPIECE = "wordpiece"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerConfig(StageConfig):
    """From a corpus to a tokenizer that `AutoTokenizer` opens."""

    DOES_NOT_SHAPE_RESULT: ClassVar[frozenset[str]] = frozenset({"num_workers"})

    algorithm: Algorithm = Algorithm.UNIGRAM
    """How the vocabulary is learned."""
    vocab_size: int = 8192
    """Pieces in the vocabulary, the five special tokens included."""
    character_coverage: float = 0.9999
    """The share of the corpus's characters (0 to 1) that the vocabulary must hold, most frequent
    ones first; the others are unknown. Byte-level BPE has no need of it."""
    max_words: int = 500_000
    """The most distinct words that the training keeps in memory; the rarest go first."""
    model_max_length: int = 512
    """The longest input, in tokens, that the tokenizer tells its users a model takes."""
    num_workers: int = 0
    """Processes; 0 means one a processor. The result does not depend on it."""

    def validate(self) -> None:
        """Checks ranges."""
        self.check("vocab_size", self.vocab_size >= 16, "at least 16")
        self.check("character_coverage", 0.9 <= self.character_coverage <= 1, "from 0.9 to 1")
        self.check("max_words", self.max_words >= 1000, "at least 1000")
        self.check("model_max_length", self.model_max_length >= 8, "at least 8")
        self.check("num_workers", self.num_workers >= 0, "0 or more")
