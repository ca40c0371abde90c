"""A Tokenizer artifact, or any folder with a `tokenizer.json`, as later stages use it."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders

from clozeflow import storage
from clozeflow.errors import UserError
from clozeflow.tokenizer.normalizer import SPACE_MARK
from clozeflow.tokenizer.special import SPECIAL_ROLES, SpecialIds

TOKENIZER_FILE = "tokenizer.json"
CONFIG_FILE = "tokenizer_config.json"

_UNSPACED_SCRIPTS = ("CJK ", "HIRAGANA", "KATAKANA", "THAI", "LAO ", "KHMER", "MYANMAR", "TIBETAN")
"""Beginnings of the Unicode names of letters that are written without spaces between words."""


def load(folder: str) -> Tokenizer:
    """The tokenizer, ready to encode documents.

    The text of a special token in a document is ordinary text; nothing is cut or padded. Give
    `add_special_tokens=False` to `encode_batch_fast` for the ids of the text alone.

    Raises:
        UserError: The folder holds no tokenizer that `tokenizers` opens.
    """
    location = storage.join(folder, TOKENIZER_FILE)
    try:
        tokenizer = Tokenizer.from_str(storage.read_text(location))
    except UserError:
        raise
    except Exception as error:  # `tokenizers` raises plain Exception
        raise UserError(
            location, f"is no tokenizer: {error}", fix="Run `clozeflow tokenizer` again."
        ) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


def special_ids(folder: str) -> SpecialIds:
    """The ids of the special tokens: ours are always the same, an adopted tokenizer has its own.

    Raises:
        UserError: One of them is missing.
    """
    config = json.loads(storage.read_text(storage.join(folder, CONFIG_FILE)))
    found = {role: _token(config, *names) for role, names in SPECIAL_ROLES.items()}
    ids = _ids_of(folder, found)
    missing = [name for name in found if ids.get(name) is None]
    if missing:
        raise UserError(
            folder,
            f"the tokenizer has no special token for {', '.join(missing)}",
            expected="bos or cls, pad, eos or sep, unk, mask",
            fix="Use a tokenizer that has them, or train one with `clozeflow tokenizer`.",
        )
    return SpecialIds(**ids)


def mask_token(folder: str) -> str:
    """The text of the mask token as the tokenizer's configuration says it, or "" if it does not."""
    location = storage.join(folder, CONFIG_FILE)
    if not storage.is_file(location):
        return ""
    try:
        config = json.loads(storage.read_text(location))
    except ValueError:
        return ""
    return _token(config, *SPECIAL_ROLES["mask"]) if isinstance(config, dict) else ""


def _ids_of(folder: str, tokens: Mapping[str, str]) -> dict[str, Any]:
    """The ids of tokens by the roles they have; a role without a token has none."""
    wanted = {role: token for role, token in tokens.items() if token}
    added = _added_tokens(storage.read_text(storage.join(folder, TOKENIZER_FILE)))
    if set(wanted.values()) <= added.keys():  # nearly always; to open the tokenizer costs more
        return {role: added[token] for role, token in wanted.items()}
    tokenizer = load(folder)
    return {role: tokenizer.token_to_id(token) for role, token in wanted.items()}


def _added_tokens(text: str) -> dict[str, int]:
    """The ids of the added tokens that a `tokenizer.json` lists; none if it is none."""
    try:
        return {token["content"]: token["id"] for token in json.loads(text)["added_tokens"]}
    except (ValueError, LookupError, TypeError):
        return {}


def word_starts(tokenizer: Tokenizer) -> np.ndarray:
    """Which pieces begin a word: bool `[V]`.

    A word's pieces are one that begins it and those after it that do not. A piece begins a word
    if it starts with a space, has neither letter nor digit, or starts with a letter of a script
    that writes no spaces (there every piece counts as a word, or a whole line would be one).
    Special tokens stand alone.
    """
    pieces = tokenizer.get_vocab(with_added_tokens=True)
    special = {
        token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special
    }
    begins = _rule(json.loads(tokenizer.to_str()))
    starts = np.zeros(max(pieces.values()) + 1, np.bool_)
    for piece, index in pieces.items():
        starts[index] = piece in special or begins(piece)
    return starts


def _rule(definition: Mapping[str, Any]) -> Callable[[str], bool]:
    """The rule of `word_starts` for the way in which this tokenizer writes its pieces."""
    model, cutting = definition["model"], json.dumps(definition["pre_tokenizer"])
    if '"ByteLevel"' in cutting:
        bytes_to_text = decoders.ByteLevel()
        return lambda piece: _begins(bytes_to_text.decode([piece]), " ")
    prefix = model.get("continuing_subword_prefix") or ""
    if '"Metaspace"' in cutting:
        return lambda piece: _begins(piece.removeprefix(prefix), SPACE_MARK)
    # BERT's way: words are cut at spaces and punctuation, and what goes on in one is marked.
    return lambda piece: not piece.startswith(prefix or "##")


def _begins(text: str, space: str) -> bool:
    if text.startswith(space):
        return True
    if "\N{REPLACEMENT CHARACTER}" in text:  # a part of a character
        return False
    if not any(unicodedata.category(character)[0] in "LNM" for character in text):
        return True
    return unicodedata.name(text[0], "").startswith(_UNSPACED_SCRIPTS)


def _token(config: Mapping[str, Any], *names: str) -> str:
    """The text of the first special token that the configuration has, or ""."""
    for name in names:
        if value := config.get(name):
            return value if isinstance(value, str) else value["content"]
    return ""
