"""White space is normalised in one place, which Python and `tokenizers` agree on."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeflow.tokenizer import loading
from clozeflow.tokenizer.normalizer import normalize, normalizer

NORMALIZER = normalizer()


def test_every_character_of_unicode():
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if (character.isspace() or character == "▁") and not 0xD800 <= code < 0xE000:
            for text in (f"a{character}b", f"a {character}b", f"a{character} {character}b"):
                assert NORMALIZER.normalize_str(text) == "a b"
    others = "".join(chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000)
    others = "".join(c for c in others if not (c.isspace() or c == "▁"))
    assert NORMALIZER.normalize_str(others) == others


@given(st.text(st.sampled_from(" \t\u00a0\u3000▁ab.")))
def test_one_leading_space_stays_in_tokenizers(text):
    space = " " if text and not normalize(text[0]) and normalize(text) else ""
    assert NORMALIZER.normalize_str(text) == space + normalize(text)


@pytest.mark.parametrize(
    "text",
    [
        "  two  spaces\tand \u00a0 more \u3000",
        "the <mask> and <s> of </s>, <pad>",
        "the ▁ of it",
        "",
    ],
)
def test_decoding_gives_back_the_normalised_text(artifact, text):
    tokenizer = loading.load(artifact.uri)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids) == normalize(text)
