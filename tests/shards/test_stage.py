import itertools
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tokenizers import Tokenizer

from clozeflow import artifacts, storage
from clozeflow.errors import UserError
from clozeflow.shards import units
from clozeflow.tokenizer.special import SpecialIds
from tests.shards import fixtures

BOS_ID, PAD_ID, EOS_ID = SpecialIds().bos, SpecialIds().pad, SpecialIds().eos


def read_as_hugging_face_does(pattern: str, seq_len: int) -> list[np.ndarray]:
    """Rows of files in the form that the TPU training scripts of transformers read."""
    features = {
        "input_ids": tf.io.FixedLenFeature(dtype=tf.int64, shape=(seq_len,)),
        "attention_mask": tf.io.FixedLenFeature(dtype=tf.int64, shape=(seq_len,)),
    }
    files = tf.io.gfile.glob(pattern)
    dataset = tf.data.TFRecordDataset(sorted(files)).map(
        lambda example: tf.io.parse_single_example(example, features)
    )
    return [(row["input_ids"].numpy(), row["attention_mask"].numpy()) for row in dataset]


def content(folder: Path) -> dict[str, bytes]:
    return {
        name: storage.read_bytes(storage.join(str(folder), name))
        for name in storage.list_files(str(folder))
        if name != "manifest.json"
    }


def expected_tokens(corpus, tokenizer, split) -> list[list[int]]:
    from clozeflow.corpus import reader

    truth = Tokenizer.from_file(tokenizer.path("tokenizer.json"))
    return [truth.encode(t, add_special_tokens=False).ids for t in reader.iter_texts(corpus, split)]


def test_every_token_is_in_exactly_one_row(shards, corpus, tokenizer):
    for split in ("train", "validation"):
        rows = read_as_hugging_face_does(f"{shards.uri}/{split}/*.tfrecord", 32)
        found = np.concatenate([ids[mask == 1] for ids, mask in rows])
        found = found[(found != BOS_ID) & (found != EOS_ID)]
        documents = expected_tokens(corpus, tokenizer, split)
        assert sorted(found.tolist()) == sorted(itertools.chain.from_iterable(documents))


def test_rows_have_the_form(shards):
    rows = read_as_hugging_face_does(f"{shards.uri}/train/*.tfrecord", 32)
    for ids, mask in rows:
        used = ids[mask == 1]
        assert used[0] == BOS_ID and used[-1] == EOS_ID
        assert (ids[mask == 0] == PAD_ID).all()
        assert (np.diff(np.flatnonzero(mask == 0)) == 1).all()
    assert sum((mask == 0).any() and (mask == 0).sum() > 1 for _, mask in rows) <= 1


def test_documents_are_whole_and_end_with_a_separator(tmp_path, tokenizer):
    texts = ["We the people.", "A more perfect union.", "Justice."]
    corpus = fixtures.write_corpus(tmp_path / "corpus", train=[texts])
    made = fixtures.make_shards(tmp_path / "made", corpus=corpus, tokenizer=tokenizer, seq_len=64)
    ((ids, mask),) = read_as_hugging_face_does(f"{made.uri}/train/*.tfrecord", 64)
    documents = expected_tokens(corpus, tokenizer, "train")
    wanted = [BOS_ID, *documents[0], EOS_ID, *documents[1], EOS_ID, *documents[2], EOS_ID]
    assert ids[mask == 1].tolist() == wanted


def test_names_and_manifest_count_the_examples(shards):
    for split, entries in shards.manifest.splits.items():
        for index, entry in enumerate(entries.files):
            rows = sum(1 for _ in tf.data.TFRecordDataset(shards.path(entry.path)))
            assert rows == entry.counts["num_examples"] <= 64
            assert entry.path == f"{split}/shard-{index:05d}-{rows}.tfrecord"
    properties = shards.manifest.properties
    counts = [split.counts for split in shards.manifest.splits.values()]
    assert properties["num_examples"] == sum(c["num_examples"] for c in counts)
    assert properties["num_tokens"] == sum(c["num_tokens"] for c in counts)
    assert properties["seq_len"] == 32
    assert properties["vocab_size"] == 800
    assert properties["pad_token_id"] == PAD_ID
    artifacts.check_files(shards.uri, shards.manifest.all_files())


def test_consecutive_rows_are_not_one_document(tmp_path, tokenizer):
    long_text = " ".join(fixtures.documents())[:40_000]
    corpus = fixtures.write_corpus(tmp_path / "corpus", train=[[long_text]])
    made = fixtures.make_shards(tmp_path / "made", corpus=corpus, tokenizer=tokenizer)
    rows = read_as_hugging_face_does(f"{made.uri}/train/*.tfrecord", 32)
    document = expected_tokens(corpus, tokenizer, "train")[0]
    starts = {tuple(document[i : i + 30]): i for i in range(0, len(document), 30)}
    places = [starts[tuple(ids[1:31].tolist())] for ids, mask in rows if mask.all()]
    assert len(places) > 100
    assert np.mean(np.diff(places) == 30) < 0.05


def test_one_sentence_pads_one_row(tmp_path, tokenizer):
    corpus = fixtures.write_corpus(tmp_path / "corpus", train=[["We the people."]])
    made = fixtures.make_shards(tmp_path / "made", corpus=corpus, tokenizer=tokenizer)
    assert [f.path for f in made.manifest.splits["train"].files] == ["train/shard-00000-1.tfrecord"]


def test_the_text_of_special_tokens_is_text(tmp_path, tokenizer):
    texts = ["<mask> and <pad> and </s> and <s>", "[SEP] <unk>"]
    corpus = fixtures.write_corpus(tmp_path / "corpus", train=[texts])
    made = fixtures.make_shards(tmp_path / "made", corpus=corpus, tokenizer=tokenizer, seq_len=128)
    ((ids, mask),) = read_as_hugging_face_does(f"{made.uri}/train/*.tfrecord", 128)
    assert np.count_nonzero(ids[mask == 1] == BOS_ID) == 1
    assert np.count_nonzero(ids[mask == 1] == EOS_ID) == len(texts)
    assert 4 not in ids


def test_no_documents_is_refused(tmp_path, tokenizer):
    corpus = fixtures.write_corpus(tmp_path / "corpus", train=[[]], validation=[["Something."]])
    with pytest.raises(UserError, match="no training documents"):
        fixtures.make_shards(tmp_path / "made", corpus=corpus, tokenizer=tokenizer)
    assert not (tmp_path / "made" / "manifest.json").exists()


def test_two_workers_write_the_same_bytes(shards, corpus, tokenizer, tmp_path):
    settings = {"examples_per_shard": 64, "num_workers": 2}
    made = fixtures.make_shards(tmp_path / "made", corpus=corpus, tokenizer=tokenizer, **settings)
    assert content(tmp_path / "made") == content(Path(shards.uri))
    assert made.manifest.fingerprint == shards.manifest.fingerprint


def test_another_seed_gives_the_same_rows_in_another_order(shards, corpus, tokenizer, tmp_path):
    made = fixtures.make_shards(
        tmp_path / "made", corpus=corpus, tokenizer=tokenizer, examples_per_shard=64, seed=1
    )
    one, other = (
        [tuple(ids) for ids, _ in read_as_hugging_face_does(f"{a.uri}/train/*", 32)]
        for a in (shards, made)
    )
    assert one != other
    assert sorted(one) == sorted(other)


class StopError(Exception):
    """Stands for a kill."""


@pytest.mark.parametrize("finished_units", [0, 1, 3])
def test_a_stopped_run_redoes_only_what_is_missing(
    shards, corpus, tokenizer, tmp_path, monkeypatch, finished_units
):
    worked = []

    def stopping(unit):
        if len(worked) == finished_units:
            raise StopError
        worked.append(unit)
        return write_unit(unit)

    write_unit = units.write_unit
    settings = {"corpus": corpus, "tokenizer": tokenizer, "examples_per_shard": 64}
    monkeypatch.setattr(units, "write_unit", stopping)
    with pytest.raises(StopError):
        fixtures.make_shards(tmp_path / "made", **settings)
    assert not artifacts.is_finished(str(tmp_path / "made"))
    again = []
    monkeypatch.setattr(units, "write_unit", lambda unit: again.append(unit) or write_unit(unit))
    fixtures.make_shards(tmp_path / "made", **settings)
    assert len(again) == 4 - finished_units
    assert content(tmp_path / "made") == content(Path(shards.uri))


@pytest.mark.parametrize("moves", [0, 1, 5])
def test_stopped_while_numbering(shards, corpus, tokenizer, tmp_path, monkeypatch, moves):
    done = []

    def stopping(source, target):
        if len(done) == moves:
            raise StopError
        done.append(target)
        move_file(source, target)

    move_file = storage.move_file
    settings = {"corpus": corpus, "tokenizer": tokenizer, "examples_per_shard": 64}
    with monkeypatch.context() as patch:
        patch.setattr(storage, "move_file", stopping)
        with pytest.raises(StopError):
            fixtures.make_shards(tmp_path / "made", **settings)
    fixtures.make_shards(tmp_path / "made", **settings)
    assert content(tmp_path / "made") == content(Path(shards.uri))


@pytest.mark.parametrize("wrong", [0, 1, 2, 4, 800])
def test_ids_that_no_text_has_are_refused(corpus, tmp_path, tokenizer, monkeypatch, wrong):
    monkeypatch.setattr(
        "clozeflow.shards.encoding.Encoder.encode",
        lambda self, texts: (
            np.full(len(texts), wrong, np.int32),
            np.ones(len(texts), np.int64),
        ),
    )
    monkeypatch.setattr("clozeflow.shards.encoding.check_sample", lambda *_: None)
    with pytest.raises(UserError, match=f"got {wrong}, expected below 800, and none of"):
        fixtures.make_shards(tmp_path / "made", corpus=corpus, tokenizer=tokenizer)


def test_an_encoder_that_differs_is_found(corpus, tmp_path, tokenizer, monkeypatch):
    def wrong(self, texts):
        ids, lengths = self.encode_plainly(texts)
        ids[ids == ids[-1]] = 700
        return ids, lengths

    monkeypatch.setattr("clozeflow.shards.encoding.Encoder.encode", wrong)
    with pytest.raises(UserError, match="has other ids by 'SentencePiece"):
        fixtures.make_shards(tmp_path / "made", corpus=corpus, tokenizer=tokenizer)
    assert not artifacts.is_finished(str(tmp_path / "made"))
