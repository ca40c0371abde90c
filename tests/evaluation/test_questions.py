"""Frozen questions: which tokens are asked for, and that nothing else decides it."""

import numpy as np
import pytest

from clozeflow.evaluation.config import Shown
from clozeflow.evaluation.questions import cloze_rule, make_questions
from tests.evaluation import fixtures


@pytest.fixture(scope="module")
def batch(shards):
    return fixtures.rows(shards, "validation")


@pytest.fixture(scope="module")
def rule(opened):
    return cloze_rule(
        opened.tokenizer, masking_rate=0.15, seq_len=fixtures.SEQ_LEN, shown=Shown.MASK
    )


def part(batch, chosen):
    return {name: values[chosen] for name, values in batch.items()}


def test_every_row_is_asked_for_ordinary_tokens_alone(batch, rule, opened):
    questions = make_questions(batch, rule=rule, seed=0)
    assert set(questions.batch_index) == set(range(len(batch["row"])))
    assert not np.isin(questions.labels, opened.tokenizer.all_special_ids).any()
    asked = questions.batch_index, questions.positions
    assert (batch["input_ids"][asked] == questions.labels).all()
    assert len({*zip(*asked, strict=True)}) == len(questions.labels)


def test_asked_tokens_are_masked_and_all_others_stay(batch, rule, opened):
    questions = make_questions(batch, rule=rule, seed=0)
    expected = batch["input_ids"].copy()
    expected[questions.batch_index, questions.positions] = opened.mask_token_id
    assert (questions.input_ids == expected).all()


def test_a_rows_questions_depend_on_no_batch(batch, rule):
    chosen = np.array([5, 2, 40])
    together = make_questions(batch, rule=rule, seed=3)
    apart = make_questions(part(batch, chosen), rule=rule, seed=3)
    assert (apart.input_ids == together.input_ids[chosen]).all()


def test_the_rate_is_kept_and_the_seed_chooses(batch, rule, opened):
    first = make_questions(batch, rule=rule, seed=0)
    other = make_questions(batch, rule=rule, seed=1)
    ordinary = ~np.isin(batch["input_ids"], opened.tokenizer.all_special_ids)
    assert len(first.labels) / ordinary.sum() == pytest.approx(0.15, abs=0.02)
    assert (first.input_ids != other.input_ids).any(axis=1).mean() > 0.9


def test_a_row_of_padding_has_no_question(batch, rule):
    empty = {**part(batch, np.array([0])), "input_ids": np.ones((1, fixtures.SEQ_LEN), np.int32)}
    assert len(make_questions(empty, rule=rule, seed=0).labels) == 0


def test_as_in_training_most_are_masked_and_a_tenth_each_is_kept_or_replaced(batch, opened):
    rule = cloze_rule(opened.tokenizer, masking_rate=0.15, seq_len=fixtures.SEQ_LEN)
    shown, labels = [], []
    for seed in range(5):
        questions = make_questions(batch, rule=rule, seed=seed)
        shown.append(questions.shown)
        labels.append(questions.labels)
    shown, labels = np.concatenate(shown), np.concatenate(labels)
    sigma = np.sqrt(0.8 * 0.2 / len(labels))
    assert np.mean(shown == opened.mask_token_id) == pytest.approx(0.8, abs=3 * sigma)
    assert np.mean(shown == labels) == pytest.approx(0.1, abs=3 * sigma)
