"""Frozen questions: which tokens are asked for, and that nothing else decides it."""

import numpy as np
import pytest

from clozeflow.evaluation.config import Shown
from clozeflow.evaluation.questions import Rule, make_questions
from tests.evaluation import fixtures

FROZEN_POSITIONS = [[9, 17, 19, 10, 28], [9, 7, 20, 30, 4], [15, 17, 23, 14, 1]]
FROZEN_SHOWN = [[4, 4, 4, 14, 4], [4, 11, 4, 4, 4], [4, 4, 4, 4, 4]]


@pytest.fixture(scope="module")
def batch(shards):
    return fixtures.rows(shards, "validation")


@pytest.fixture(scope="module")
def rule(opened):
    return fixtures.rule_of(opened, Shown.MASK)


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
    rule = fixtures.rule_of(opened, Shown.TRAINING)
    shown, labels = [], []
    for seed in range(20):
        questions = make_questions(batch, rule=rule, seed=seed)
        shown.append(questions.shown)
        labels.append(questions.labels)
    shown, labels = np.concatenate(shown), np.concatenate(labels)
    sigma = np.sqrt(0.8 * 0.2 / len(labels))
    assert np.mean(shown == opened.mask_token_id) == pytest.approx(0.8, abs=3 * sigma)
    assert np.mean(shown == labels) == pytest.approx(0.1, abs=3 * sigma)
    others = shown[(shown != labels) & (shown != opened.mask_token_id)]
    assert opened.pieces.is_ordinary[others].all()
    assert len(set(others)) > 0.4 * len(others)


def test_what_is_shown_changes_no_question(batch, opened):
    asked = [make_questions(batch, rule=fixtures.rule_of(opened, shown), seed=0) for shown in Shown]
    assert (asked[0].masked_positions == asked[1].masked_positions).all()
    assert (asked[0].labels == asked[1].labels).all()


@pytest.mark.parametrize(
    ("shown", "in_the_places"), [(Shown.MASK, [[4] * 5] * 3), (Shown.TRAINING, FROZEN_SHOWN)]
)
def test_the_questions_are_frozen(shown, in_the_places):
    """Other questions would make figures that cannot be compared with those of before."""
    row = np.array([0, *range(5, 35), 2], np.int32)
    batch = {
        "input_ids": np.stack([row] * 3),
        "attention_mask": np.ones((3, 32), np.int32),
        "row": np.array([0, 1, 10**9]),
    }
    rule = Rule(masking_rate=0.15, shown=shown, mask_token_id=4, is_ordinary=np.arange(100) >= 5)
    questions = make_questions(batch, rule=rule, seed=7)
    assert questions.is_asked.all()
    assert questions.masked_positions.tolist() == FROZEN_POSITIONS
    assert questions.shown.reshape(3, 5).tolist() == in_the_places
