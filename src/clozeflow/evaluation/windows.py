"""Texts as model inputs: whole where they fit, else a window around each mask."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from clozeflow.evaluation.models import MaskedLanguageModel

_TEXTS_AT_ONCE = 1024
"""Bounds what the tokenizer holds; it works on so many texts in parallel."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Window:
    """A text, or a part of one, as the model sees it."""

    text_index: int
    token_ids: tuple[int, ...]
    """Special tokens included."""
    positions: tuple[int, ...]
    """Where in `token_ids` the masks are that this window answers (in `cut_parts`: the text)."""
    masks: tuple[int, ...]
    """Which masks of the text these are, from 0."""
    seen: tuple[int, int]
    """The part of the text, in characters, that is in the window."""


def cut_windows(model: MaskedLanguageModel, texts: Sequence[str]) -> Iterator[Window]:
    """The windows of all texts, in order.

    A text that fits is one window with all its masks. One that does not gets a window for each
    mask, with the mask in the middle, or nearer to an end where the text ends.

    Args:
        model: Whose tokenizer, mask token and longest input count.
        texts: Texts that spell masks as the model does.
    """
    for index, encoding in _encodings(model, texts):
        yield from _windows_of(encoding, index, len(texts[index]), model)


def cut_parts(model: MaskedLanguageModel, texts: Sequence[str]) -> Iterator[Window]:
    """Texts cut into parts as long as the model takes, in order, with nothing left out.

    A text of no tokens has no part.
    """
    for index, encoding in _encodings(model, texts):
        before, after = _added_tokens(encoding.special_tokens_mask)
        ids, stop = encoding.ids, len(encoding.ids) - after
        room = model.max_tokens - before - after
        for start in range(before, stop, room):
            part = ids[start : min(start + room, stop)]
            yield Window(
                text_index=index,
                token_ids=(*ids[:before], *part, *ids[stop:]),
                positions=tuple(range(before, before + len(part))),
                masks=(),
                seen=(encoding.offsets[start][0], encoding.offsets[start + len(part) - 1][1]),
            )


def _encodings(model: MaskedLanguageModel, texts: Sequence[str]) -> Iterator[tuple[int, Any]]:
    """Each text's index and its encoding, whole and with special tokens."""
    backend = model.tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        encodings = backend.encode_batch(list(texts[start : start + _TEXTS_AT_ONCE]))
        yield from enumerate(encodings, start)


def _windows_of(
    encoding: Any, text_index: int, text_length: int, model: MaskedLanguageModel
) -> Iterator[Window]:
    ids, mask_token_id = encoding.ids, model.mask_token_id
    masked = [position for position, i in enumerate(ids) if i == mask_token_id]
    if len(ids) <= model.max_tokens:
        yield Window(
            text_index=text_index,
            token_ids=tuple(ids),
            positions=tuple(masked),
            masks=tuple(range(len(masked))),
            seen=(0, text_length),
        )
        return
    before, after = _added_tokens(encoding.special_tokens_mask)
    for mask, position in enumerate(masked):
        room = model.max_tokens - before - after
        start = min(max(position - room // 2, before), len(ids) - after - room)
        stop = start + room
        yield Window(
            text_index=text_index,
            token_ids=(*ids[:before], *ids[start:stop], *ids[len(ids) - after :]),
            positions=(before + position - start,),
            masks=(mask,),
            seen=(encoding.offsets[start][0], encoding.offsets[stop - 1][1]),
        )


def _added_tokens(special_tokens_mask: Sequence[int]) -> tuple[int, int]:
    """How many special tokens the tokenizer puts before and behind a text.

    Of a text of no tokens all count as before it; its end is then its beginning.
    """
    before = 0
    while before < len(special_tokens_mask) and special_tokens_mask[before]:
        before += 1
    after = 0
    while after < len(special_tokens_mask) - before and special_tokens_mask[-1 - after]:
        after += 1
    return before, after
