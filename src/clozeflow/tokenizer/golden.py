"""Golden encodings: texts and their ids, written with a tokenizer, checked wherever it goes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tokenizers import Tokenizer

from clozeflow import storage
from clozeflow.artifacts import Artifact
from clozeflow.errors import UserError
from clozeflow.tokenizer import loading

GOLDEN_FILE = "golden.json"

_TEXTS = (
    "",
    "My fellow Americans, the state of the union is strong.",
    "  spaces\tat the ends, and   runs\u00a0of them\u3000inside  ",
    "A text with <mask>, <s>, </s>, <pad> and <unk> in it; [MASK] [SEP] too.",
    "<mask> first, <mask> <mask> twice, and last<mask>",
    "1,234.56 EUR (≈ 1.4e3 $) — “quoted”, it's 50 % off!",
    "naïve café, Straße, Ελληνικά, Русский, עברית, العربية, हिन्दी",
    "没有空格的中文。日本語の文章です。ภาษาไทยไม่มีช่องว่าง ភាសាខ្មែរ",
    "👩‍👩‍👧‍👦 emoji 🎉 e\u0301 combining",
    "aGVsbG8gd29ybGQ" * 8,
)
"""What goes wrong first: spaces, special tokens' texts, scripts, words without an end."""

_MOST_CHARS = 400


def write(folder: str, texts: Iterable[str]) -> None:
    """Writes the golden encodings of our own texts and of some of the corpus's.

    A text is encoded twice: as a document (a special token's text is text, no tokens around it)
    and as a model's input (special tokens are special, `<s>` and `</s>` around it).
    """
    encode = _encoders(folder)
    encodings = [
        {"text": text, **{kind: function(text) for kind, function in encode.items()}}
        for text in [*_TEXTS, *(text[:_MOST_CHARS] for text in texts)]
    ]
    lines = ",\n".join(json.dumps(encoding, ensure_ascii=False) for encoding in encodings)
    storage.write_text(storage.join(folder, GOLDEN_FILE), f"[\n{lines}\n]\n")


def check(artifact: Artifact) -> None:
    """Encodes the golden texts again.

    Raises:
        UserError: The first text that has other ids than when the tokenizer was made.
    """
    encode = _encoders(artifact.uri)
    for golden in read(artifact.uri):
        for kind, function in encode.items():
            ids = function(golden["text"])
            if ids != golden[kind]:
                raise _difference(artifact.path(GOLDEN_FILE), golden["text"], kind, ids, golden)


def read(folder: str) -> list[Mapping[str, Any]]:
    """The golden encodings: `text`, `document_ids` and `input_ids` of each."""
    return json.loads(storage.read_text(storage.join(folder, GOLDEN_FILE)))


def _encoders(folder: str) -> dict[str, Any]:
    documents = loading.load(folder)
    inputs = Tokenizer.from_str(documents.to_str())
    inputs.encode_special_tokens = False
    return {
        "document_ids": lambda text: documents.encode(text, add_special_tokens=False).ids,
        "input_ids": lambda text: inputs.encode(text).ids,
    }


def _difference(
    location: str, text: str, kind: str, ids: list[int], golden: Mapping[str, Any]
) -> UserError:
    expected = golden[kind]
    where = next(
        (i for i, (a, b) in enumerate(zip(ids, expected, strict=False)) if a != b),
        min(len(ids), len(expected)),
    )
    return UserError(
        location,
        f"{text[:60]!r} has other {kind} than when the tokenizer was made, from token {where} on",
        got=ids[where : where + 5],
        expected=expected[where : where + 5],
        fix="Check that tokenizer.json is the one that was trained, and the version of the "
        "`tokenizers` library.",
    )
