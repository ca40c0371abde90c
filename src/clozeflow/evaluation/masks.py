"""Masks in texts: how they are written, and what a text is with an answer in one's place."""

from __future__ import annotations

import re

from clozeflow.errors import UserError

MASK_WORDS = ("<mask>", "[MASK]")
"""What stands for a missing word in a text, whatever the model's own mask token is."""


def has_mask(text: str) -> bool:
    """Whether a word is missing in the text."""
    return any(word in text for word in MASK_WORDS)


def spell_masks(text: str, own: str, *, where: str) -> str:
    """The text with the model's own mask token, `own`, for every mask word in it.

    Raises:
        UserError: There is none; `where` says which text that is.
    """
    pattern = "|".join(re.escape(word) for word in {*MASK_WORDS, own})
    spelled = re.sub(pattern, lambda _: own, text)
    if own not in spelled:
        shown = text if len(text) <= 60 else text[:60] + "…"
        raise UserError(
            where,
            "has no mask",
            got=repr(shown),
            expected=f"one or more {own}",
            fix=f"Write {own} where the missing word is.",
        )
    return spelled


def around_mask(text: str, own: str, mask: int) -> tuple[str, str]:
    """What is before and behind one of the masks of a text, counted from 0."""
    start = -1
    for _ in range(mask + 1):
        start = text.index(own, start + 1)
    return text[:start], text[start + len(own) :]


def fill(before: str, surface: str, after: str) -> str:
    """The text with a piece in it: one space before a piece that begins a word, none before others.

    The mask token takes the space before it with it, as it does in the tokenizer.
    """
    if not before or before.endswith("\n"):
        return before + surface.removeprefix(" ") + after
    return before.rstrip(" ") + surface + after
