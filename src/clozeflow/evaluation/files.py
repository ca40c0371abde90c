"""Whole files answered or embedded: each row's own fields kept, one field added."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from clozeflow.errors import UserError
from clozeflow.evaluation.embed import Embedder
from clozeflow.evaluation.masks import spell_masks
from clozeflow.evaluation.predict import Answer, FillMask
from clozeflow.evaluation.rows import Row, batched, read_rows

logger = logging.getLogger(__name__)

ANSWERS, VECTOR = "answers", "vector"
"""The fields that are added."""


def answer_rows(
    fill_mask: FillMask,
    location: str,
    *,
    text_field: str,
    top_k: int = 5,
    targets: Sequence[str] = (),
) -> Iterator[list[Row]]:
    """The rows of a file with the field `answers`, a batch at a time.

    Every row is checked before the first is answered.

    Args:
        fill_mask: The model.
        location: See `rows.read_rows`.
        text_field: The field with the text.
        top_k: Answers to each mask.
        targets: See `FillMask`.

    Raises:
        UserError: A row has no text or no mask, or a field `answers` already.
    """
    mask_token = fill_mask.model.tokenizer.mask_token

    def check(place: str, row: Row) -> None:
        spell_masks(row[text_field], mask_token, where=place)

    def answer(texts: list[str]) -> list[Any]:
        found = fill_mask(texts, top_k=top_k, targets=targets)
        if said := say_what_was_cut(texts, found):
            logger.warning("%s: %s", location, said)
        return [[dataclasses.asdict(one) for one in answers] for answers in found]

    yield from _extended(location, text_field, ANSWERS, check, answer)


def embed_rows(embedder: Embedder, location: str, *, text_field: str) -> Iterator[list[Row]]:
    """The rows of a file with the field `vector`, a batch at a time.

    Raises:
        UserError: A row has no text, or a field `vector` already.
    """

    def embed(texts: list[str]) -> list[Any]:
        return embedder(texts).tolist()

    yield from _extended(location, text_field, VECTOR, lambda place, row: None, embed)


def say_what_was_cut(texts: Sequence[str], answers: Sequence[Sequence[Answer]]) -> str:
    """A sentence on texts that the model saw only a part of, or "" if there are none."""
    num_cut = sum(
        any(answer.seen != (0, len(text)) for answer in found)
        for text, found in zip(texts, answers, strict=True)
    )
    if not num_cut:
        return ""
    return f"{num_cut:,} longer than the model, answered from a window around each mask (`seen`)"


def _extended(
    location: str,
    text_field: str,
    new_field: str,
    check: Callable[[str, Row], None],
    work: Callable[[list[str]], list[Any]],
) -> Iterator[list[Row]]:
    """Rows with one more field; the whole file is checked before the work begins."""
    for place, row in read_rows(location, text_field=text_field):
        check(place, row)
        if new_field in row:
            raise UserError(
                place,
                f"has a field {new_field!r} already",
                fix="Rename that field: the results are to be put there.",
            )
    rows = (row for _, row in read_rows(location, text_field=text_field))
    for batch in batched(rows):
        values = work([row[text_field] for row in batch])
        yield [{**row, new_field: value} for row, value in zip(batch, values, strict=True)]
