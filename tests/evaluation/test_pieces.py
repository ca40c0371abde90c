"""What pieces stand for, in each kind of tokenizer."""

import numpy as np
import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from clozeflow.evaluation.pieces import read_pieces
from tests.shards import fixtures as shard_fixtures

VOCAB_SIZE = 896
TEXT = "The people of Größe, 中文 and the United States"


def bert_style():
    """A tokenizer with no sign for spaces, as BERT's own."""
    return PreTrainedTokenizerFast(
        tokenizer_object=shard_fixtures.foreign_wordpiece(),
        unk_token="<unk>",
        pad_token="<pad>",
        mask_token="<mask>",
    )


@pytest.fixture(params=["tokenizer", "bpe", "wordpiece", "bert"])
def any_tokenizer(request):
    if request.param == "bert":
        return bert_style()
    return AutoTokenizer.from_pretrained(request.getfixturevalue(request.param).uri)


def test_surfaces_of_pieces_make_the_text_again(any_tokenizer):
    pieces = read_pieces(any_tokenizer, VOCAB_SIZE)
    text = "The people of the United States and their rights"
    ids = any_tokenizer(text, add_special_tokens=False)["input_ids"]
    assert pieces.text(ids).strip().lower() == text.lower()
    assert pieces.num_bytes[ids].sum() in (len(text), len(text) + 1)  # a space before it, or none


def test_bytes_of_byte_level_pieces_are_counted_one_by_one(bpe):
    tokenizer = AutoTokenizer.from_pretrained(bpe.uri)
    pieces = read_pieces(tokenizer, VOCAB_SIZE)
    ids = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    assert pieces.text(ids).strip() == TEXT
    assert pieces.num_bytes[ids].sum() - len(TEXT.encode()) in (0, 1)


def test_continuations_have_no_space(any_tokenizer):
    pieces = read_pieces(any_tokenizer, VOCAB_SIZE)
    ids = any_tokenizer("of constitutionality", add_special_tokens=False)["input_ids"]
    assert len(ids) > 2
    assert pieces.text(ids[1:]) == " constitutionality"
    assert pieces.starts_word[ids[1:]].tolist() == [True] + [False] * (len(ids) - 2)


def test_ids_beyond_the_tokenizer_are_unknown_and_special_tokens_are_empty(any_tokenizer):
    pieces, known = read_pieces(any_tokenizer, VOCAB_SIZE), len(any_tokenizer)
    assert pieces.is_known.tolist() == [True] * known + [False] * (VOCAB_SIZE - known)
    assert not pieces.num_bytes[known:].any()
    assert not pieces.num_bytes[any_tokenizer.all_special_ids].any()
    assert np.flatnonzero(pieces.is_special).tolist() == sorted(any_tokenizer.all_special_ids)
    assert pieces.word(any_tokenizer.mask_token_id) == "<mask>"
