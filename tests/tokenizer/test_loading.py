"""What later stages get: documents encoded as text, ids, word starts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from clozeflow.errors import UserError
from clozeflow.tokenizer import loading
from clozeflow.tokenizer.special import SPECIAL_TOKENS, SpecialIds


@pytest.mark.parametrize("text", [*SPECIAL_TOKENS, "a <mask>b", "<mask><mask>", "x</s>", "[MASK]"])
def test_the_text_of_a_special_token_is_text(artifact, text):
    ids = loading.load(artifact.uri).encode(text, add_special_tokens=False).ids
    assert not {0, 1, 2, 4} & set(ids)
    assert len(ids) > 1


@given(text=st.text(st.sampled_from("<>/smaskpdunk ae")))
def test_no_text_gives_a_special_id(unigram, text):
    ids = loading.load(unigram.uri).encode(text, add_special_tokens=False).ids
    assert not {0, 1, 2, 3, 4} & set(ids)


def test_long_documents_are_neither_cut_nor_padded(artifact):
    tokenizer = loading.load(artifact.uri)
    short, long = tokenizer.encode_batch_fast(["the", "the " * 5000], add_special_tokens=False)
    assert len(long.ids) == 5000 * len(short.ids)


def test_special_ids(artifact):
    assert loading.special_ids(artifact.uri) == SpecialIds()


def test_word_starts(artifact):
    tokenizer = loading.load(artifact.uri)
    starts = loading.word_starts(tokenizer)
    assert starts.shape == (tokenizer.get_vocab_size(),)
    text = "representatives undoubtedly the"
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    words = np.split(ids, np.flatnonzero(starts[ids])[1:])
    assert [tokenizer.decode(list(word)).strip() for word in words] == text.split()
    assert starts[tokenizer.token_to_id(",")]
    assert starts[list(SpecialIds().all())].all()


def test_every_piece_of_unspaced_script_is_a_word():
    pieces = [("▁", -1.0), ("漢字", -1.0), ("ひら", -1.0), ("ing", -1.0), ("...", -1.0), ("▁a", -1)]
    tokenizer = Tokenizer(models.Unigram(pieces))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    starts = loading.word_starts(tokenizer)
    assert starts.tolist() == [True, True, True, False, True, True]


def test_what_is_no_tokenizer_is_refused(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match="is no tokenizer"):
        loading.load(str(tmp_path))
