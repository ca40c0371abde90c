"""Settings of the predict stage."""

from __future__ import annotations

import dataclasses
import enum
from typing import ClassVar

from clozeflow.config import StageConfig


class Produced(enum.StrEnum):
    """What each row gets."""

    ANSWERS = "answers"
    """The likeliest words for each of its masks, in the field `answers`."""
    VECTORS = "vectors"
    """The mean of the last hidden states of its text, in the field `vector`."""


class OutputFormat(enum.StrEnum):
    """How the rows are written."""

    PARQUET = "parquet"
    JSON_LINES = "jsonl"
    """For rows that do not all have the same fields."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictConfig(StageConfig):
    """From a model and files of texts to answers or vectors, each row's own fields kept."""

    DOES_NOT_SHAPE_RESULT: ClassVar[frozenset[str]] = frozenset({"num_workers"})

    produce: Produced = Produced.ANSWERS
    """What each row gets: `answers` to its masks, or the `vectors` of its text."""
    text_field: str = "text"
    """The field of a row that holds the text; the others are kept."""
    top_k: int = 5
    """Answers to each mask."""
    targets: tuple[str, ...] = ()
    """Words to choose from; none for the whole vocabulary."""
    output_format: OutputFormat = OutputFormat.PARQUET
    """How the rows are written: `parquet` or `jsonl`."""
    num_workers: int = 1
    """Processes; 0 for one a processor. Each opens the model, and uses all processors by itself."""

    def validate(self) -> None:
        """Checks ranges."""
        self.check("top_k", self.top_k >= 1, "at least 1")
        self.check("num_workers", self.num_workers >= 0, "0 or more")
        self.check("text_field", bool(self.text_field), "a field's name")
