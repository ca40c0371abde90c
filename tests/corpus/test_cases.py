"""Texts that break things: each kind gets the treatment that the design asks for."""

import base64
import random
import resource
import time

import pytest

from clozeflow.corpus.config import CorpusConfig
from clozeflow.errors import UserError


def test_empty_and_blank_corpora_are_refused_by_name(make_corpus):
    for content in ("", "\n \n\t\r\n\n", "\ufeff\n\u3000\n\x00\n"):
        with pytest.raises(UserError, match="there are no documents"):
            make_corpus(content)


def test_one_sentence_goes_to_train(make_corpus, caplog):
    for sentence in ("This is one random sentence.", "Another one.", "A third.", "Yet another."):
        made = make_corpus(sentence, validation_fraction=0.45, test_fraction=0.45)
        assert [row["text"] for row in made.documents("train")] == [sentence]
        assert list(made.manifest.splits) == ["train"]
    assert "its validation split is empty" in caplog.text
    assert "no document fell to the train split" in caplog.text


def test_a_source_that_is_hardly_text_is_warned_of(make_corpus, caplog):
    make_corpus("A line of text.\n" * 2 + "Another with a \x07 bell in it.\n" + "Text. " * 99)
    assert "are no text's" not in caplog.text
    make_corpus(random.Random(1).randbytes(20_000))
    assert "are no text's (bad bytes, control characters)" in caplog.text


def test_documents_moved_to_train_stay_in_hash_order(make_corpus):
    made = make_corpus("a\nb\nc\n", validation_fraction=0.5, test_fraction=0.499999)
    ids = [row["doc_id"] for row in made.documents("train")]
    assert len(ids) == 3 and ids == sorted(ids)


def test_byte_order_mark_is_no_part_of_the_first_word(make_corpus):
    made = make_corpus("\ufeffThe first line.\nSecond line.\nThe first line.\n")
    assert made.texts() == {"The first line.", "Second line."}
    assert made.manifest.properties["num_duplicates"] == 1
    # Files that were joined bring marks into the middle.
    assert make_corpus("a b\n\ufeffa b\n").texts() == {"a b"}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize(
    "text", ["Plain English.\nTwo lines.\n", "Ünïcode lïnes.\nБуквы и so on.\n"]
)
def test_utf16_and_utf32_are_recognised(tmp_path, read_all, encoding, text):
    # Without a mark, only text that is mostly Latin can be told by its zero bytes.
    lines = (text + "This line is here so that most letters are Latin.\n") * 3
    path = tmp_path / "text.txt"
    path.write_bytes(lines.encode(encoding))
    assert read_all(CorpusConfig(source=(str(path),))) == lines.split("\n")[:-1]


def test_crlf_gives_the_documents_of_lf(make_corpus):
    lf = make_corpus("hello world\nfoo bar\nlast line")
    for content in (
        b"hello world\r\nfoo bar\r\nlast line\r\n",
        b"hello world\r\r\nfoo bar\nlast line\r",
    ):
        made = make_corpus(content)
        assert made.texts() == lf.texts()
        assert made.manifest.splits["train"].files == lf.manifest.splits["train"].files


def test_only_a_line_feed_ends_a_line(make_corpus):
    line = "one\u2028still one\u2029still one\u0085still one\x0bstill one\x0cstill one\rend"
    made = make_corpus("".join(f"{i} {line}\n" for i in range(20)))
    assert len(made.all_documents()) == 20
    expected = "one\u2028still one\u2029still one still one still one still one end"
    assert {text.split(" ", 1)[1] for text in made.texts()} == {expected}


def test_one_endless_line(make_corpus):
    noise = base64.b64encode(random.Random(0).randbytes(150_000)).decode()
    letters = random.Random(1)
    chinese = "".join(chr(letters.randrange(0x4E00, 0x9FA5)) for _ in range(200_000))
    start = time.process_time()
    assert make_corpus(f"{noise}\n{chinese}").texts() == {noise, chinese}
    assert time.process_time() - start < 5


def test_special_tokens_are_text(make_corpus):
    text = "the [MASK] token, <mask>, <pad>, <unk>, [CLS] and [SEP] </s> <s> appear in this text"
    assert make_corpus(text).texts() == {text}


def test_quotes_tabs_and_inner_spaces_stay(make_corpus):
    text = "``quoted''  text with  two spaces, don''t\tand\ttabs"
    assert make_corpus(f"  {text}  \n\t{text}\u00a0\n").texts() == {text}


def test_unicode_forms(make_corpus):
    composed, decomposed = (
        "café naïve Ångström ﬁ ①",
        "cafe\u0301 nai\u0308ve A\u030angstro\u0308m ﬁ ①",
    )
    both = f"{composed}\n{decomposed}\n"
    assert make_corpus(both).texts() == {composed}
    assert make_corpus(both, unicode_form="none").texts() == {composed, decomposed}
    assert make_corpus(both, unicode_form="NFKC").texts() == {"café naïve Ångström fi 1"}


def test_one_line_many_times_is_one_document(make_corpus):
    made = make_corpus("the cat sat\n" * 100_000)
    assert made.texts() == {"the cat sat"}
    assert made.manifest.properties["num_duplicates"] == 99_999


def test_a_million_blank_lines_take_seconds(make_corpus):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    made = make_corpus("\n" * 1_000_000 + "some text after blanks\n")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 5
    assert made.manifest.properties["num_blank"] == 1_000_000
    assert made.texts() == {"some text after blanks"}


def test_control_characters_are_removed_and_counted(make_corpus):
    made = make_corpus("a\x00b\x07c\x7fd\u0080e\tf\x1fg\n\x00\n")
    assert made.texts() == {"abcde\tf g"}
    assert made.manifest.properties["num_blank"] == 1
    assert made.statistics["properties"]["num_controls"] == 6


def test_bad_bytes_are_replaced_and_counted_or_refused(make_corpus):
    content = b"fine\n" + b"caf\xe9 ol\xe9\n" + "also fine \ufffd\n".encode()
    made = make_corpus(content)
    assert made.texts() == {"fine", "caf\ufffd ol\ufffd", "also fine \ufffd"}
    assert made.statistics["properties"]["num_bad_bytes"] == 2
    with pytest.raises(UserError, match=r"input\.txt: is not UTF-8 at offset 8 .*0xe9"):
        make_corpus(content, bad_bytes="refuse")
