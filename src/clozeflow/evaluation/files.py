"""Whole files answered or embedded: each row's own fields kept, one field added."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from clozeflow.errors import UserError
from clozeflow.evaluation.embed import Embedder
from clozeflow.evaluation.masks import spell_masks
from clozeflow.evaluation.predict import Answer, FillMask
from clozeflow.evaluation.rows import Row, batched, read_rows

logger = logging.getLogger(__name__)

ANSWERS, VECTOR = "answers", "vector"
"""The fields that are added."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Work:
    """What is done to the rows of a file."""

    new_field: str
    """Where the results go."""
    text_field: str
    """The field with the text."""
    check: Callable[[str, Row], None]
    """Raises a `UserError` for a row, at a place, that cannot be worked on."""
    of_texts: Callable[[list[str]], list[Any]]
    """A result for each text."""


def answering(
    fill_mask: FillMask, *, text_field: str, top_k: int = 5, targets: Sequence[str] = ()
) -> Work:
    """Every mask answered (see `FillMask`), in the field `answers`; a row must have one."""
    fill_mask.check(top_k=top_k, targets=targets)
    mask_token = fill_mask.model.tokenizer.mask_token

    def check(place: str, row: Row) -> None:
        spell_masks(row[text_field], mask_token, where=place)

    def answer(texts: list[str]) -> list[Any]:
        found = fill_mask(texts, top_k=top_k, targets=targets)
        if said := say_what_was_cut(texts, found):
            logger.warning("%s", said)
        return [[dataclasses.asdict(one) for one in answers] for answers in found]

    return Work(new_field=ANSWERS, text_field=text_field, check=check, of_texts=answer)


def embedding(embedder: Embedder, *, text_field: str) -> Work:
    """Every text embedded, in the field `vector`."""
    return Work(
        new_field=VECTOR,
        text_field=text_field,
        check=lambda place, row: None,
        of_texts=lambda texts: embedder(texts).tolist(),
    )


def work_on(location: str, work: Work) -> Iterator[list[Row]]:
    """A file's rows with one more field, a batch at a time; all are checked before the first."""
    check_rows(location, work)
    yield from extended((row for _, row in read_rows(location, text_field=work.text_field)), work)


def check_rows(location: str, work: Work) -> int:
    """Reads a whole file, and returns the number of its rows.

    Raises:
        UserError: A row has no text, has the new field already, or cannot be worked on.
    """
    count = 0
    for place, row in read_rows(location, text_field=work.text_field):
        work.check(place, row)
        if work.new_field in row:
            raise UserError(
                place,
                f"has a field {work.new_field!r} already",
                fix="Rename that field: the results are to be put there.",
            )
        count += 1
    return count


def extended(rows: Iterable[Row], work: Work) -> Iterator[list[Row]]:
    """Rows with one more field, a batch at a time."""
    for batch in batched(rows):
        values = work.of_texts([row[work.text_field] for row in batch])
        yield [{**row, work.new_field: value} for row, value in zip(batch, values, strict=True)]


def say_what_was_cut(texts: Sequence[str], answers: Sequence[Sequence[Answer]]) -> str:
    """A sentence on texts that the model saw only a part of, or "" if there are none."""
    num_cut = sum(
        any(answer.seen != (0, len(text)) for answer in found)
        for text, found in zip(texts, answers, strict=True)
    )
    if not num_cut:
        return ""
    return f"{num_cut:,} longer than the model, answered from a window around each mask (`seen`)"
