"""What the pieces of a vocabulary stand for in text: their bytes, and whether they begin a word."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pieces:
    """A tokenizer's vocabulary by id. Arrays are as long as the model's vocabulary, V.

    A model's vocabulary may be longer than its tokenizer's (rounded up for the hardware): ids that
    the tokenizer does not know have no bytes and `is_known` is false.
    """

    names: tuple[str, ...]
    """The pieces as the tokenizer spells them."""
    surfaces: tuple[bytes, ...]
    """What each piece adds to a text: a leading space where it begins a word."""
    is_special: npt.NDArray[np.bool_]
    """Padding, separators, mask, unknown."""
    is_known: npt.NDArray[np.bool_]

    @functools.cached_property
    def is_ordinary(self) -> npt.NDArray[np.bool_]:
        """[V]: whether the piece is of the vocabulary and no special token."""
        return self.is_known & ~self.is_special

    @functools.cached_property
    def num_bytes(self) -> npt.NDArray[np.int64]:
        """[V]: how many bytes of text each piece stands for."""
        return np.array([len(surface) for surface in self.surfaces], dtype=np.int64)

    @functools.cached_property
    def starts_word(self) -> npt.NDArray[np.bool_]:
        """[V]: whether the piece begins a word."""
        return np.array([surface.startswith(b" ") for surface in self.surfaces], dtype=bool)

    def surface_text(self, token_id: int) -> str:
        """What a piece adds to a text; the name of one that adds nothing, as of special tokens."""
        surface = self.surfaces[token_id].decode("utf-8", errors="replace")
        return surface if surface.strip() else self.names[token_id]

    def word(self, token_id: int) -> str:
        """A piece for people: its text without the space before it."""
        return self.surface_text(token_id).strip()

    def text(self, token_ids: Iterable[int]) -> str:
        """The text that a run of pieces stands for; special tokens add nothing."""
        joined = b"".join(self.surfaces[i] for i in token_ids)
        return joined.decode("utf-8", errors="replace")


def read_pieces(tokenizer: Any, vocab_size: int) -> Pieces:
    """The vocabulary of a fast tokenizer of transformers, by the rules of its own decoder."""
    known = len(tokenizer)
    names = [name or "" for name in tokenizer.convert_ids_to_tokens(range(min(known, vocab_size)))]
    names += [""] * (vocab_size - len(names))
    is_special = np.zeros(vocab_size, dtype=bool)
    is_special[[i for i in tokenizer.all_special_ids if i < vocab_size]] = True
    surface = _surface_function(json.loads(tokenizer.backend_tokenizer.to_str()))
    return Pieces(
        names=tuple(names),
        surfaces=tuple(
            b"" if is_special[i] or not name else surface(name) for i, name in enumerate(names)
        ),
        is_special=is_special,
        is_known=np.array([bool(name) for name in names], dtype=bool),
    )


def _surface_function(tokenizer: Mapping[str, Any]) -> Callable[[str], bytes]:
    """How pieces turn into bytes: byte-level, WordPiece's way, or SentencePiece's."""
    model = tokenizer["model"]
    types = {*_types(tokenizer["pre_tokenizer"]), *_types(tokenizer["decoder"])}
    if "ByteLevel" in types:
        return _byte_level_surface
    if model.get("type") != "WordPiece":
        return _sentence_piece_surface
    # BERT's own has no sign for a space: whatever is no continuation begins a word.
    space = "" if "Metaspace" in types else " "
    prefix = model["continuing_subword_prefix"]
    return functools.partial(_word_piece_surface, prefix=prefix, space=space)


def _types(part: Mapping[str, Any] | None) -> list[str]:
    """The types of a part of `tokenizer.json`: of its links, where it is a sequence of them."""
    part = part or {}
    links = [*part.get("pretokenizers", ()), *part.get("decoders", ())] or [part]
    return [link.get("type", "") for link in links]


def _sentence_piece_surface(name: str) -> bytes:
    if match := _BYTE_PIECE.fullmatch(name):
        return bytes([int(match[1], 16)])
    return name.replace("▁", " ").encode()


def _word_piece_surface(name: str, *, prefix: str, space: str) -> bytes:
    if name.startswith(prefix):
        return name.removeprefix(prefix).encode()
    return _sentence_piece_surface(space + name)


def _byte_level_surface(name: str) -> bytes:
    table = _byte_of_character()
    return b"".join(bytes([table[char]]) if char in table else char.encode() for char in name)


@functools.cache
def _byte_of_character() -> dict[str, int]:
    """Byte-level BPE's alphabet: printable bytes are themselves, the others begin at U+0100."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(others)}
