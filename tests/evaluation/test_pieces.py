"""What pieces stand for, in each kind of tokenizer."""

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from clozeflow.evaluation.pieces import read_pieces
from tests.evaluation import fixtures
from tests.shards import fixtures as shard_fixtures

TEXT = "The people of Größe, 中文 and the United States"


@pytest.fixture(params=[shard_fixtures.unigram, shard_fixtures.byte_level_bpe])
def tokenizer(request, tmp_path) -> PreTrainedTokenizerFast:
    return fixtures.save_tokenizer(tmp_path / "tokenizer", request.param)


def test_surfaces_of_pieces_make_the_text_again(tokenizer):
    pieces = read_pieces(tokenizer, 896)
    text = "The people of the United States, and their rights"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert pieces.text(ids).strip() == text
    assert pieces.num_bytes[ids].sum() in (len(text), len(text) + 1)  # `▁` before the first word


def test_bytes_of_byte_level_pieces_are_counted_one_by_one(tmp_path):
    tokenizer = fixtures.save_tokenizer(tmp_path / "t", shard_fixtures.byte_level_bpe)
    pieces = read_pieces(tokenizer, 800)
    ids = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    assert pieces.num_bytes[ids].sum() == len(TEXT.encode())
    assert pieces.text(ids) == TEXT


def test_wordpiece_continuations_have_no_space(tmp_path):
    tokenizer = fixtures.save_tokenizer(tmp_path / "t", shard_fixtures.wordpiece)
    pieces = read_pieces(tokenizer, 800)
    ids = tokenizer("constitutional", add_special_tokens=False)["input_ids"]
    assert len(ids) > 1
    assert pieces.text(ids) == " constitutional"
    assert pieces.starts_word[ids].tolist() == [True] + [False] * (len(ids) - 1)


def test_ids_beyond_the_tokenizer_are_unknown_and_special_tokens_are_empty(tokenizer):
    pieces = read_pieces(tokenizer, 896)
    assert pieces.is_known.sum() == len(tokenizer)
    assert not pieces.num_bytes[len(tokenizer) :].any()
    assert not pieces.num_bytes[tokenizer.all_special_ids].any()
    assert np.flatnonzero(pieces.is_special).tolist() == sorted(tokenizer.all_special_ids)
    assert pieces.word(tokenizer.mask_token_id) == "<mask>"
