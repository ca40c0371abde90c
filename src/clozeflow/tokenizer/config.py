"""Settings of the tokenizer stage."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable
from typing import ClassVar

from clozeflow.config import StageConfig
from clozeflow.engine import WORKER_SETTINGS, Engine, check_reach, check_workers


class Algorithm(enum.StrEnum):
    """How the vocabulary is learned and how text is cut."""

    UNIGRAM = "unigram"
    BPE = "bpe"
    """Byte-level, as RoBERTa's own: no text is unknown."""
    WORDPIECE = "wordpiece"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerConfig(StageConfig):
    """From a corpus to a tokenizer that `AutoTokenizer` opens."""

    DOES_NOT_SHAPE_RESULT: ClassVar[frozenset[str]] = frozenset(
        {
            "baseline",
            "from_pretrained",
            *WORKER_SETTINGS,
        }  # the first two are inputs, hashed as such
    )

    algorithm: Algorithm = Algorithm.UNIGRAM
    """How the vocabulary is learned."""
    vocab_size: int = 8192
    """Pieces in the vocabulary, the five special tokens included."""
    character_coverage: float = 0.9999
    """The share of the corpus's characters (0 to 1) that the vocabulary must hold, most frequent
    ones first; the others are unknown. Byte-level BPE has no need of it."""
    byte_fallback: bool = False
    """Unigram writes characters outside of the vocabulary in bytes, 256 pieces for which are added:
    no text is unknown."""
    corpus_sample_bytes: int = 0
    """Learn from a sample of about so many bytes of the train split; 0: from all of it."""
    seed: int = 0
    """Chooses the documents of the sample."""
    max_words: int = 1_000_000
    """The most distinct words that the training keeps in memory; the rarest go first."""
    model_max_length: int = 512
    """The longest input, in tokens, that the tokenizer tells its users a model takes."""
    from_pretrained: str = ""
    """Adopt this tokenizer instead of training one, its ids unchanged: a folder, or a Hub name with
    or without `@REVISION`. It must be a fast tokenizer that has what masking needs."""
    baseline: str = ""
    """A tokenizer to compare with in the report: a folder, or a Hub name."""
    max_unknown_rate: float = 1.0
    """The stage fails if more than this share of the held-out text's tokens is unknown (0 to 1)."""
    num_workers: int = 0
    """Processes; 0 means one a processor. The result does not depend on it."""
    engine: Engine = Engine.PROCESS_POOL
    """What runs the units of work: processes of this machine, or an Apache Beam pipeline."""
    beam_args: str = ""
    """Options of the Beam pipeline, as on a command line: `--runner=DataflowRunner …`."""

    def validate(self) -> None:
        """Checks ranges."""
        self.check("vocab_size", self.vocab_size >= 16, "at least 16")
        self.check("character_coverage", 0.9 <= self.character_coverage <= 1, "from 0.9 to 1")
        self.check(
            "byte_fallback",
            not self.byte_fallback or self.algorithm == Algorithm.UNIGRAM,
            "set for unigram only (bpe knows every byte, wordpiece has no such thing)",
        )
        self.check("corpus_sample_bytes", self.corpus_sample_bytes >= 0, "0 or more")
        self.check("max_words", self.max_words >= 1000, "at least 1000")
        self.check("model_max_length", self.model_max_length >= 8, "at least 8")
        self.check("max_unknown_rate", 0 <= self.max_unknown_rate <= 1, "from 0 to 1")
        check_workers(self)

    def check_locations(self, locations: Iterable[str]) -> None:
        """Checks that workers elsewhere can reach what they read and write."""
        check_reach(self, locations)
