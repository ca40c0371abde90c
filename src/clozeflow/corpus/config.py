"""Settings of the corpus stage."""

from __future__ import annotations

import dataclasses
import enum
from typing import ClassVar

from clozeflow.config import StageConfig


class Documents(enum.StrEnum):
    """What one document is in a text file."""

    LINE = "line"
    PARAGRAPH = "paragraph"
    """Lines up to the next blank one."""
    FILE = "file"


class UnicodeForm(enum.StrEnum):
    """The Unicode normal form that cleaned text is in."""

    NFC = "NFC"
    NFKC = "NFKC"
    NONE = "none"


class BadBytes(enum.StrEnum):
    """What happens to bytes that are no UTF-8."""

    REPLACE = "replace"
    """Each becomes U+FFFD and is counted."""
    REFUSE = "refuse"
    """The stage stops and names the file and the offset."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusConfig(StageConfig):
    """From raw text to clean documents in train, validation and test."""

    DOES_NOT_SHAPE_RESULT: ClassVar[frozenset[str]] = frozenset({"source", "num_workers"})

    source: tuple[str, ...] = ("sample",)
    """Where the text is: `sample`, a file or glob (txt, jsonl, parquet; .gz, .zst, .xz), `gs://…`,
    or `hf:NAME[:CONFIG][@REVISION]`. `NAME=SOURCE` gives a source's documents a name."""
    documents: Documents = Documents.LINE
    """What one document is in a text file."""
    text_field: str = "text"
    """The field of a JSON line, or the column of a Parquet file, that holds the text."""
    unicode_form: UnicodeForm = UnicodeForm.NFC
    """The Unicode normal form of the cleaned text."""
    bad_bytes: BadBytes = BadBytes.REPLACE
    """What happens to bytes that are no UTF-8: replaced and counted, or refused."""
    validation_fraction: float = 0.02
    """The share of documents in the validation split (0 to 1), chosen by a hash of the text."""
    test_fraction: float = 0.02
    """The share of documents in the test split (0 to 1), chosen by a hash of the text."""
    num_workers: int = 0
    """Processes; 0 means one a processor. The result does not depend on it."""

    def validate(self) -> None:
        """Checks ranges."""
        self.check("source", len(self.source) > 0, "at least one source")
        self.check("text_field", bool(self.text_field), "the name of a field")
        self.check("validation_fraction", 0 <= self.validation_fraction < 1, "from 0 to below 1")
        self.check(
            "test_fraction",
            0 <= self.test_fraction < 1 - self.validation_fraction,
            "from 0, with the validation fraction below 1 in all",
        )
        self.check("num_workers", self.num_workers >= 0, "0 or more")
