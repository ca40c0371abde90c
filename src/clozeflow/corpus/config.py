"""Settings of the corpus stage."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable
from typing import ClassVar

from clozeflow.config import StageConfig
from clozeflow.corpus.languages import check_codes
from clozeflow.corpus.thresholds import parse_thresholds
from clozeflow.engine import WORKER_SETTINGS, Engine, check_reach, check_workers
from clozeflow.errors import UserError


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


class OwnSplits(enum.StrEnum):
    """What happens to the splits that a Hub data set brings along."""

    KEEP = "keep"
    """`validation`, `val`, `dev` and `test` keep their names; all others are train."""
    IGNORE = "ignore"
    """Its documents are split by their hashes, as others are."""


class NearDuplicates(enum.StrEnum):
    """What happens to documents that are nearly equal to another."""

    IGNORE = "ignore"
    """They are not looked for."""
    REPORT = "report"
    """They are counted, and some are shown."""
    DROP = "drop"
    """Of two, the one in the held-out split stays, else the one with the smaller `doc_id`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusConfig(StageConfig):
    """From raw text to clean documents in train, validation and test."""

    # What the sources hold shapes the result, and is named and hashed by `source_refs`.
    DOES_NOT_SHAPE_RESULT: ClassVar[frozenset[str]] = frozenset(
        {"source", "validation_source", "test_source", *WORKER_SETTINGS}
    )

    source: tuple[str, ...] = ("sample",)
    """Where the text is: `sample`, a file, glob or folder (txt, jsonl, parquet; .gz .zst .xz .bz2),
    `gs://…`, or `hf:NAME[:CONFIG][@REVISION]`. `NAME=SOURCE` gives its documents a name."""
    validation_source: tuple[str, ...] = ()
    """Sources that are the validation split as they are; no other text is put there."""
    test_source: tuple[str, ...] = ()
    """Sources that are the test split as they are; no other text is put there."""
    weights: tuple[str, ...] = ()
    """`NAME=SHARE`: of the source of that name, keep this share (0 to 1) of the documents, chosen
    by a hash of the text."""
    own_splits: OwnSplits = OwnSplits.KEEP
    """What happens to the splits that a Hub data set brings along."""
    documents: Documents = Documents.LINE
    """What one document is in a text file."""
    text_field: str = "text"
    """The field of a JSON line, or the column of a Parquet file, that holds the text."""
    unicode_form: UnicodeForm = UnicodeForm.NFC
    """The Unicode normal form of the cleaned text."""
    bad_bytes: BadBytes = BadBytes.REPLACE
    """What happens to bytes that are no UTF-8: replaced and counted, or refused."""
    min_characters: int = 0
    """Shorter documents are dropped."""
    max_characters: int = 0
    """Longer documents are dropped; 0: none is too long."""
    min_letter_share: float = 0.0
    """Documents with a smaller share of letters among their characters are dropped (0 to 1)."""
    max_repetition: float = 1.0
    """Documents that repeat themselves more than this are dropped (0 to 1): the share of their
    16-byte windows that stood in them before."""
    languages: tuple[str, ...] = ()
    """Keep only documents in these languages (ISO 639 codes: en, de, …); empty: all."""
    near_duplicates: NearDuplicates = NearDuplicates.REPORT
    """What happens to documents that are nearly equal to another (by MinHash)."""
    near_duplicate_similarity: float = 0.8
    """The share of 16-byte windows in common from which two documents are near duplicates."""
    keep_dropped: bool = False
    """Write what was dropped, with the reason, to `dropped/`."""
    validation_fraction: float = 0.02
    """The share of documents in the validation split (0 to 1), chosen by a hash of the text."""
    test_fraction: float = 0.02
    """The share of documents in the test split (0 to 1), chosen by a hash of the text."""
    require: tuple[str, ...] = ()
    """Thresholds that the corpus must meet, for example `num_documents>=1000` or
    `duplicate_share<=0.2`, on the properties in `statistics.json`; the stage fails if it does
    not."""
    num_workers: int = 0
    """Processes; 0 means one a processor (or one, for little text). The result does not depend on
    it."""
    engine: Engine = Engine.PROCESS_POOL
    """What runs the units of work: processes of this machine, or an Apache Beam pipeline."""
    beam_args: str = ""
    """Options of the Beam pipeline, as on a command line: `--runner=DataflowRunner …`."""

    def validate(self) -> None:
        """Checks ranges."""
        self.check("source", len(self.source) > 0, "at least one source")
        for name in ("source", "validation_source", "test_source"):
            self.check(name, all(map(str.strip, getattr(self, name))), "without empty names")
        self.check("text_field", bool(self.text_field), "the name of a field")
        self._check_filters()
        self.check("validation_fraction", 0 <= self.validation_fraction < 1, "from 0 to below 1")
        self.check(
            "test_fraction",
            0 <= self.test_fraction < 1 - self.validation_fraction,
            "from 0, with the validation fraction below 1 in all",
        )
        check_workers(self)
        for name, share in self.shares().items():
            self.check("weights", bool(name) and 0 < share <= 1, "NAME=SHARE, above 0 to 1 each")
        parse_thresholds(self.require)
        check_codes(self.languages)

    def check_locations(self, locations: Iterable[str]) -> None:
        """Checks that workers elsewhere can reach what they read and write."""
        check_reach(self, locations)

    def _check_filters(self) -> None:
        self.check("min_characters", self.min_characters >= 0, "0 or more")
        self.check(
            "max_characters",
            self.max_characters == 0 or self.max_characters >= max(1, self.min_characters),
            "0, or at least --min-characters",
        )
        self.check("min_letter_share", 0 <= self.min_letter_share <= 1, "from 0 to 1")
        self.check("max_repetition", 0 <= self.max_repetition <= 1, "from 0 to 1")
        self.check(
            "near_duplicate_similarity", 0.5 <= self.near_duplicate_similarity < 1, "0.5 to below 1"
        )

    def shares(self) -> dict[str, float]:
        """The weights: a source's name to the share of its documents that is kept."""
        found = {}
        for text in self.weights:
            name, _, share = text.partition("=")
            try:
                found[name] = float(share)
            except ValueError:
                raise UserError(
                    "--weights", "is no weight", got=repr(text), fix="Write NAME=SHARE, wiki=0.5."
                ) from None
        return found

    def hash_fractions(self) -> tuple[float, float]:
        """The shares that hashing sends to validation and test: none where a source is given."""
        return (
            0.0 if self.validation_source else self.validation_fraction,
            0.0 if self.test_source else self.test_fraction,
        )
