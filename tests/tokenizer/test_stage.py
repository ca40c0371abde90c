"""The stage's result as others use it: ids, special tokens, errors, bytes."""

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from clozeflow import storage
from clozeflow.errors import UserError
from clozeflow.tokenizer.config import Algorithm
from clozeflow.verification import verify
from tests.tokenizer import fixtures


def contents(folder: str) -> dict[str, bytes]:
    names = [name for name in storage.list_files(folder) if name != "manifest.json"]
    return {name: (Path(folder) / name).read_bytes() for name in names}


def test_autotokenizer_opens_it_with_the_ids_of_the_design(artifact):
    tokenizer = AutoTokenizer.from_pretrained(artifact.uri)
    assert type(tokenizer) is PreTrainedTokenizerFast
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    assert tokenizer.convert_tokens_to_ids(special) == [0, 1, 2, 3, 4]
    assert tokenizer.mask_token_id == 4
    assert tokenizer.pad_token_id == 1
    assert len(tokenizer) == artifact.manifest.properties["vocab_size"] == 600
    assert tokenizer.model_max_length == 512
    encoded = tokenizer("the state of the union")
    assert list(encoded) == ["input_ids", "attention_mask"]
    assert (encoded.input_ids[0], encoded.input_ids[-1]) == (0, 2)


def test_what_follows_a_mask_is_as_in_running_text(artifact):
    tokenizer = AutoTokenizer.from_pretrained(artifact.uri)
    _, *before, mask, comma, after, _ = tokenizer("the <mask>, of").input_ids
    assert mask == 4
    assert before == tokenizer("the", add_special_tokens=False).input_ids
    assert tokenizer("the, of", add_special_tokens=False).input_ids == [*before, comma, after]


def test_verify_encodes_the_golden_texts_again(artifact):
    assert verify(artifact.uri).fingerprint == artifact.manifest.fingerprint


def test_every_id_is_one_piece(artifact):
    vocab = AutoTokenizer.from_pretrained(artifact.uri).get_vocab()
    assert sorted(vocab.values()) == list(range(600))


def test_unigram_ids_are_by_score_then_piece(unigram):
    pieces = json.loads(Path(unigram.path("tokenizer.json")).read_text())["model"]["vocab"][5:]
    assert pieces == sorted(pieces, key=lambda piece: (-piece[1], piece[0]))


def test_same_bytes_with_two_workers(unigram, corpus, tmp_path):
    again = fixtures.train(corpus, tmp_path / "2", num_workers=2)
    assert contents(again.uri) == contents(unigram.uri)
    assert again.manifest.fingerprint == unigram.manifest.fingerprint


def test_same_bytes_on_a_second_run(artifact, corpus, tmp_path):
    algorithm = artifact.manifest.config["algorithm"]
    again = fixtures.train(corpus, tmp_path / "2", algorithm=algorithm)
    assert contents(again.uri) == contents(artifact.uri)
    assert again.manifest.fingerprint == artifact.manifest.fingerprint


@pytest.mark.parametrize("algorithm", [Algorithm.UNIGRAM, Algorithm.WORDPIECE])
def test_a_vocabulary_smaller_than_the_alphabet_is_refused(algorithm, tmp_path):
    alphabet = [chr(0x4E00 + i) for i in range(160)]
    corpus = fixtures.write_corpus(tmp_path / "corpus", [["".join(alphabet)] * 2])
    with pytest.raises(UserError, match=r"160 characters, vocab_size is 60.*Raise --vocab-size"):
        fixtures.train(corpus, tmp_path / "out", algorithm=algorithm, vocab_size=60)


def test_byte_level_bpe_needs_a_piece_for_every_byte(tmp_path, corpus):
    with pytest.raises(UserError, match="256 bytes"):
        fixtures.train(corpus, tmp_path / "out", algorithm=Algorithm.BPE, vocab_size=200)


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_one_sentence_gives_the_pieces_that_it_can(algorithm, tmp_path):
    corpus = fixtures.write_corpus(tmp_path / "corpus", [["the cat sat on the other cat"]])
    artifact = fixtures.train(corpus, tmp_path / "out", algorithm=algorithm, vocab_size=8192)
    size = artifact.manifest.properties["vocab_size"]
    assert size < 8192
    assert len(AutoTokenizer.from_pretrained(artifact.uri)) == size
    (warning,) = json.loads(Path(artifact.path("quality.json")).read_text())["warnings"]
    assert f"enough for {size:,} pieces" in warning


def test_a_corpus_of_white_space_is_refused(tmp_path):
    corpus = fixtures.write_corpus(tmp_path / "corpus", [["\u00a0", "▁ \t"]])
    with pytest.raises(UserError, match="no words to train on"):
        fixtures.train(corpus, tmp_path / "out")


def test_an_object_store_gets_the_same_files(unigram, corpus, tmp_path):
    folder = f"memory://bucket/{tmp_path.name}"
    for name in storage.list_files(corpus):
        content = storage.read_bytes(storage.join(corpus, name))
        storage.write_bytes(storage.join(folder, "corpus", name), content)
    artifact = fixtures.train(f"{folder}/corpus", f"{folder}/tokenizer")
    assert verify(artifact.uri).fingerprint == unigram.manifest.fingerprint
    adopted = fixtures.train(corpus, tmp_path / "adopted", from_pretrained=artifact.uri)
    there = json.loads(storage.read_text(artifact.path("golden.json")))
    assert json.loads(Path(adopted.path("golden.json")).read_text()) == there
