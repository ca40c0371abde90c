"""Cleaning, against a slow and plain version of itself."""

import unicodedata

import hypothesis
import hypothesis.strategies as st
import pytest

from clozeflow.corpus.cleaning import Block, block_of, clean
from clozeflow.corpus.config import UnicodeForm

TEXTS = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from("\r\n\t\v\f\x00\x1c\x7f\u0085\u009f\ufeff\u0301\u00a0\u3000 a"),
    )
)


def plainly(text: str, form: UnicodeForm) -> str:
    text = text.replace("\r\n", "\n")
    kept = []
    for character in text:
        if character in "\n\t" or (
            unicodedata.category(character) != "Cc" and character != "\ufeff"
        ):
            kept.append(character)
        elif character.isspace():
            kept.append(" ")
    text = "".join(kept)
    if form != UnicodeForm.NONE:
        text = unicodedata.normalize(form.value, text)
    return text.strip()


def clean_text(text: str, form: UnicodeForm) -> str:
    """What one text is after cleaning; the empty string for a blank one."""
    kept = clean(block_of([text.encode("utf-8", errors="replace")]), form).texts
    return kept[0].as_py() if len(kept) else ""


@pytest.mark.parametrize("form", list(UnicodeForm))
@hypothesis.given(text=TEXTS)
@hypothesis.settings(max_examples=200)
def test_clean_text_does_what_it_says(text, form):
    cleaned = clean_text(text, form)
    assert cleaned == plainly(text, form)
    assert clean_text(cleaned, form) == cleaned


@hypothesis.given(texts=st.lists(TEXTS, max_size=8))
@hypothesis.settings(max_examples=100)
def test_documents_of_a_block_do_not_touch_each_other(texts):
    block = clean(block_of([text.encode() for text in texts]), UnicodeForm.NFC)
    alone = [plainly(text, UnicodeForm.NFC) for text in texts]
    assert block.texts.to_pylist() == [text for text in alone if text]
    assert block.num_blank == alone.count("")
    assert block.text_bytes == sum(len(text.encode()) for text in alone)


def test_controls_are_counted_and_line_ends_are_not():
    block = Block(data="a\x00b\r\nc\rd\u0085e\ufefff\tg\n".encode(), separator=b"\n")
    cleaned = clean(block, UnicodeForm.NFC)
    assert cleaned.texts.to_pylist() == ["ab", "c d ef\tg"]
    assert cleaned.num_controls == 4
