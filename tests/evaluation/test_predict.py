"""Fill-mask: answers, and every input that is not as one would wish."""

import numpy as np
import pytest
from transformers import TFAutoModel

from clozeflow.errors import UserError
from clozeflow.evaluation.predict import FillMask
from tests.evaluation import fixtures

TEXT = "The <mask> of the United States"


@pytest.fixture(scope="module")
def fill_mask(opened):
    return FillMask(opened)


def probabilities(opened, text):
    """The whole model's, for the first mask of a text, the plain way."""
    ids = opened.tokenizer(text, return_tensors="np")["input_ids"].astype(np.int32)
    logits = opened.network(ids).logits.numpy()[0].astype(np.float64)
    logits = logits[np.flatnonzero(ids[0] == opened.mask_token_id)[0]]
    exponents = np.exp(logits - logits.max())
    return exponents / exponents.sum()


def test_answers_are_the_models_likeliest_pieces(fill_mask, opened):
    (answers,) = fill_mask([TEXT], top_k=4)
    expected = probabilities(opened, TEXT)[: len(opened.tokenizer)]
    best = np.argsort(-expected)[:4]
    assert [answer.token_id for answer in answers] == best.tolist()
    assert [a.probability for a in answers] == pytest.approx(expected[best], rel=1e-5)
    assert all(answer.seen == (0, len(TEXT)) for answer in answers)


def test_the_text_has_the_answer_in_it(fill_mask, opened):
    (answers,) = fill_mask([TEXT], top_k=50)
    for answer in answers:
        name = opened.tokenizer.convert_ids_to_tokens(answer.token_id)
        if name.startswith("▁") and len(name) > 1:
            assert answer.text == f"The {answer.token} of the United States"
        elif not name.startswith(("▁", "<")):
            assert answer.text == f"The{answer.token} of the United States"


def test_many_texts_of_many_lengths_are_answered_as_one_by_one(fill_mask):
    texts = [" ".join(["people"] * n) + " <mask>" for n in (3, 1, 9, 5, 2, 7)]
    together = fill_mask(texts, top_k=3)
    for text, answers in zip(texts, together, strict=True):
        (alone,) = fill_mask([text], top_k=3)
        assert [a.token_id for a in alone] == [a.token_id for a in answers]
        assert [a.probability for a in alone] == pytest.approx(
            [a.probability for a in answers], rel=1e-4
        )


def test_bert_style_masks_are_masks_too(fill_mask):
    assert fill_mask([TEXT.replace("<mask>", "[MASK]")]) == fill_mask([TEXT])


def test_several_masks_are_answered_each(fill_mask):
    texts = ["<mask> people of <mask> States", TEXT]
    both, one = fill_mask(texts, top_k=2)
    assert [answer.mask for answer in both] == [0, 0, 1, 1]
    assert both[0].text.endswith(" people of <mask> States")
    assert both[2].text.startswith("<mask> people of")
    assert [a.token_id for a in one] == [a.token_id for a in fill_mask([TEXT], top_k=2)[0]]


def test_a_text_without_a_mask_is_named(fill_mask):
    with pytest.raises(UserError, match=r"text 2: has no mask.*'no mask here'"):
        fill_mask([TEXT, "no mask here"])


@pytest.mark.parametrize("top_k", [0, 801, 10**9])
def test_more_answers_than_pieces_are_refused(fill_mask, top_k):
    with pytest.raises(UserError, match=r"--top-k.*1 to 800"):
        fill_mask([TEXT], top_k=top_k)


def test_all_pieces_are_answers_and_spare_ids_are_none(fill_mask):
    (answers,) = fill_mask([TEXT], top_k=800)
    assert {answer.token_id for answer in answers} == set(range(800))


def test_targets_are_all_that_is_answered(fill_mask, opened):
    (answers,) = fill_mask([TEXT], targets=("the", "and", "the"))
    assert {answer.token for answer in answers} == {"the", "and"}
    everything = probabilities(opened, TEXT)
    for answer in answers:
        assert answer.probability == pytest.approx(everything[answer.token_id], rel=1e-5)


def test_an_unknown_target_is_named_with_its_pieces(fill_mask):
    with pytest.raises(UserError, match=r"--targets.*'zebrafish'.*Its pieces are"):
        fill_mask([TEXT], targets=("zebrafish",))


def test_a_long_text_is_answered_from_a_window_around_each_mask(fill_mask):
    filler = "people of the United States " * 4000
    text = f"{filler}and <mask> are {filler}<mask>"
    assert len(text) > 100_000
    (answers,) = fill_mask([text], top_k=1)
    assert [answer.mask for answer in answers] == [0, 1]
    middle, end = (text[slice(*answer.seen)] for answer in answers)
    assert "and <mask> are" in middle
    assert end.endswith("United States <mask>")
    assert 50 < len(middle) < 400


def test_a_window_at_the_beginning_keeps_its_length(fill_mask):
    (answers,) = fill_mask(["<mask>" + " people of the United States" * 50], top_k=1)
    assert answers[0].seen[0] == 0
    assert answers[0].seen[1] > 50


def test_no_texts_have_no_answers(fill_mask):
    assert fill_mask([]) == []


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"no config.json"):
        FillMask(str(tmp_path / "nowhere"))


def test_a_model_without_a_tokenizer_is_refused(tmp_path):
    fixtures.new_network().save_pretrained(tmp_path / "model")
    with pytest.raises(UserError, match="tokenizer"):
        FillMask(str(tmp_path / "model"))


def test_a_model_without_a_head_is_refused(tokenizer, tmp_path):
    network = fixtures.new_network()
    fixtures.copy_tokenizer(tmp_path / "model", tokenizer)
    encoder = TFAutoModel.from_config(network.config)
    encoder(np.array([[0, 2]], np.int32))
    encoder.save_pretrained(tmp_path / "model")
    with pytest.raises(UserError, match=r"lacks weights.*lm_head"):
        FillMask(str(tmp_path / "model"))


def test_a_byte_level_model_answers(bpe, tmp_path):
    folder = fixtures.save_model(tmp_path / "model", bpe)
    (answers,) = FillMask(str(folder))(["Größe of the <mask>."], top_k=2)
    assert all(a.text.startswith("Größe of the") and a.text.endswith(".") for a in answers)
