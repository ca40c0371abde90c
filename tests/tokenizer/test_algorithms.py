"""What is asked of each algorithm alone."""

import json
from pathlib import Path

import pytest

from clozeflow.errors import UserError
from clozeflow.tokenizer import bpe, loading
from clozeflow.tokenizer.config import Algorithm, TokenizerConfig
from clozeflow.tokenizer.normalizer import normalize
from tests.tokenizer import fixtures

UNSPACED = {
    "chinese": "".join(chr(0x4E00 + (i * i) % 700) + "。" * (i % 23 == 0) for i in range(180_000)),
    "base64": "".join("ABCDEFGHabcdefgh0123+/"[(i * i + i // 7) % 22] for i in range(200_000)),
    "one letter": "a" * 200_000,
}


def model(artifact) -> dict:
    return json.loads(Path(artifact.path("tokenizer.json")).read_text())["model"]


@pytest.mark.parametrize("algorithm", list(Algorithm))
@pytest.mark.parametrize("kind", list(UNSPACED))
def test_text_without_spaces_takes_seconds_and_loses_nothing(algorithm, kind, tmp_path):
    text = UNSPACED[kind]
    corpus = fixtures.write_corpus(tmp_path / "corpus", [[text, "and some words"]])
    artifact = fixtures.train(
        corpus, tmp_path / "out", algorithm=algorithm, vocab_size=2500, character_coverage=1.0
    )
    tokenizer = loading.load(artifact.uri)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids) == text
    assert 3 not in ids


def test_byte_fallback_leaves_nothing_unknown(corpus, tmp_path):
    artifact = fixtures.train(corpus, tmp_path / "out", byte_fallback=True, vocab_size=600)
    tokenizer = loading.load(artifact.uri)
    assert tokenizer.get_vocab_size() == 600
    for text in ("漢字 and 🎉 <0x41> <mask>", "<0xE6><unk>", "日本 ▁ 語"):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == normalize(text)
        assert not set(range(5)) & set(ids)
    assert artifact.manifest.metrics["unknown_rate"] == 0


@pytest.mark.parametrize("algorithm", [Algorithm.BPE, Algorithm.WORDPIECE])
def test_byte_fallback_is_refused_where_it_would_do_nothing(algorithm):
    with pytest.raises(UserError, match="--byte-fallback"):
        TokenizerConfig(algorithm=algorithm, byte_fallback=True)


@pytest.mark.parametrize("algorithm", [Algorithm.UNIGRAM, Algorithm.WORDPIECE])
def test_character_coverage_leaves_out_the_rarest(algorithm, tmp_path):
    texts = ["the quick brown fox jumps over the lazy dog again and again " * 30, "a ☃ in it"]
    corpus = fixtures.write_corpus(tmp_path / "corpus", [texts])
    for coverage, is_known in ((1.0, True), (0.999, False)):
        artifact = fixtures.train(
            corpus,
            tmp_path / str(coverage),
            algorithm=algorithm,
            vocab_size=100,
            character_coverage=coverage,
        )
        ids = loading.load(artifact.uri).encode("☃", add_special_tokens=False).ids
        assert (3 not in ids) == is_known


def test_a_character_that_sentencepiece_reserves_is_a_piece(tmp_path):
    corpus = fixtures.write_corpus(tmp_path / "corpus", [["a ▅ block ▅▅ and ▅ again"] * 3])
    artifact = fixtures.train(corpus, tmp_path / "out", character_coverage=1.0)
    tokenizer = loading.load(artifact.uri)
    ids = tokenizer.encode("a ▅ block", add_special_tokens=False).ids
    assert tokenizer.decode(ids) == "a ▅ block"


def test_special_texts_are_not_learned_from_a_corpus_full_of_them(tmp_path):
    corpus = fixtures.write_corpus(tmp_path / "corpus", [["a <mask> b </s> <s><mask>"] * 50])
    for algorithm in Algorithm:
        artifact = fixtures.train(corpus, tmp_path / algorithm, algorithm=algorithm, vocab_size=400)
        tokenizer = loading.load(artifact.uri)
        ids = tokenizer.encode("a <mask> b </s> <s><mask>", add_special_tokens=False).ids
        assert not {0, 1, 2, 3, 4} & set(ids)
        assert tokenizer.decode(ids) == "a <mask> b </s> <s><mask>"


def test_bpe_divides_counts_that_would_take_too_long_to_feed(monkeypatch):
    monkeypatch.setattr(bpe, "_MOST_OCCURRENCES", 100)
    counts = {"ab": 1000, "cd": 10}
    fed = " ".join(bpe._repeated(counts, -(-1010 // 100))).split()
    assert (fed.count("ab"), fed.count("cd")) == (91, 1)
    merges = json.loads(
        bpe.train_merges(counts, vocab_size=11, alphabet=list("abcd")).__getstate__()
    )["merges"]
    assert [tuple(merge) for merge in merges] == [("a", "b"), ("c", "d")]


def test_wordpiece_has_every_character_as_first_and_as_later(corpus, tmp_path):
    artifact = fixtures.train(corpus, tmp_path / "out", algorithm="wordpiece")
    vocab = model(artifact)["vocab"]
    letters = {piece for piece in vocab if len(piece) == 1}
    assert letters
    assert {f"##{letter}" for letter in letters} <= vocab.keys()
