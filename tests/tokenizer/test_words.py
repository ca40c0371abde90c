"""Counting words: exact, bounded, the same however the corpus is divided."""

import collections

import pytest

from clozeflow import artifacts
from clozeflow.artifacts import Artifact, ArtifactType
from clozeflow.engine import Workers
from clozeflow.tokenizer import words as module
from clozeflow.tokenizer.sampling import Sample
from clozeflow.tokenizer.words import MAX_WORD_CHARS, WordTable, count_words, long_word_parts
from tests.tokenizer import fixtures


def count(
    corpus: str, output, *, sample: Sample | None = None, max_words: int = 10**6
) -> WordTable:
    return count_words(
        artifacts.open_artifact(corpus, ArtifactType.CORPUS, name="corpus"),
        sample=sample or Sample(),
        max_words=max_words,
        workers=Workers(num_workers=1),
        output=str(output),
    )


def expected_counts(texts) -> dict[str, int]:
    return collections.Counter(f"▁{word}" for text in texts for word in text.split())


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return fixtures.speeches()


def test_counts_are_those_of_the_text(texts, tmp_path):
    corpus = fixtures.write_corpus(tmp_path / "corpus", [texts[0::2], texts[1::2]])
    table = count(corpus, tmp_path / "out")
    counts = expected_counts(texts)
    assert dict(zip(table.words, table.counts, strict=True)) == counts
    assert table.num_words == counts.total()
    assert table.num_distinct_words == len(counts)
    assert table.num_documents == len(texts)
    assert table.num_bytes == sum(len(text.encode()) for text in texts)
    assert table.kept_share == 1
    characters = collections.Counter("".join("".join(texts).split()))
    assert table.characters == characters
    assert list(table.characters.values()) == sorted(characters.values(), reverse=True)


def test_tables_that_are_spilled_add_up_to_the_same(texts, tmp_path, monkeypatch):
    corpus = fixtures.write_corpus(tmp_path / "corpus", [texts, ["one more"]])
    whole = count(corpus, tmp_path / "whole")
    monkeypatch.setattr(module, "_SPILL_WORDS", 1)
    monkeypatch.setattr("clozeflow.tokenizer.sampling._BLOCK_CHARS", 500)
    spilled = count(corpus, tmp_path / "spilled")
    tables = list((tmp_path / "spilled").rglob("*.parquet"))
    assert len(tables) > 10
    assert spilled == whole


def test_the_rarest_words_go_first_and_ties_by_word(texts, tmp_path):
    corpus = fixtures.write_corpus(tmp_path / "corpus", [texts])
    table = count(corpus, tmp_path / "out", max_words=100)
    counts = expected_counts(texts)
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    assert list(table.words) == ordered[: len(table.words)]
    assert 90 <= len(table.words) <= 100  # a long word counts as several
    assert 0.3 < table.kept_share < 0.9
    assert table.num_distinct_words == len(counts)


def test_a_sample_is_chosen_by_the_seed_and_reads_about_its_bytes(texts, tmp_path):
    corpus = fixtures.write_corpus(tmp_path / "corpus", [texts])
    opened = artifacts.open_artifact(corpus, ArtifactType.CORPUS, name="corpus")
    total = sum(len(text.encode()) for text in texts)
    half = Sample.of(opened, "train", num_bytes=total // 2, seed=1)
    assert half.share == pytest.approx(0.5, abs=1e-4)
    one, again = (count(corpus, tmp_path / name, sample=half) for name in "ab")
    other = count(corpus, tmp_path / "c", sample=Sample(seed=2, share=half.share))
    assert one == again != other
    assert 0.25 * total < one.num_bytes < 0.75 * total
    assert Sample.of(opened, "train", num_bytes=10 * total, seed=1).share == 1


@pytest.mark.parametrize(
    "word", ["x" * 1000, "没有空格的中文，一句又一句。" * 300, "aGVsbG8+/=" * 90, "!" * 500]
)
def test_long_words_are_cut_into_parts_that_make_them_up(word):
    parts = long_word_parts(word)
    assert "".join(parts) == word
    assert max(map(len, parts)) <= MAX_WORD_CHARS + 4


def test_only_the_first_part_of_a_long_word_has_the_mark(tmp_path):
    corpus = fixtures.write_corpus(tmp_path / "corpus", [["b " + "a" * 150]])
    table = count(corpus, tmp_path / "out")
    parts = [f"▁{'a' * 64}", "a" * 64, "a" * 22]
    assert sorted(table.words) == sorted(["▁b", *parts])


def test_words_are_counted_again_only_where_a_run_was_cut_short(texts, tmp_path, monkeypatch):
    corpus = fixtures.write_corpus(tmp_path / "corpus", [texts[0::2], texts[1::2]])
    whole = count(corpus, tmp_path / "whole")
    original = Sample.blocks
    calls = []

    def fails_at_second(self, part):
        calls.append(part)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(self, part)

    monkeypatch.setattr(Sample, "blocks", fails_at_second)
    with pytest.raises(KeyboardInterrupt):
        count(corpus, tmp_path / "out")
    assert count(corpus, tmp_path / "out") == whole
    assert len(calls) == 3
    assert calls[1] == calls[2] != calls[0]


def test_a_corpus_without_a_train_split_has_no_words(tmp_path):
    corpus = fixtures.write_corpus(tmp_path / "corpus", [])
    opened = Artifact(uri=corpus, manifest=artifacts.read_manifest(corpus))
    table = count(opened.uri, tmp_path / "out")
    assert not table.words
    assert table.num_documents == 0
