"""Thresholds: what is read, what is refused, what blesses."""

import pytest

from clozeflow.errors import UserError
from clozeflow.evaluation.config import EvaluateConfig
from clozeflow.evaluation.gate import judge, parse_requirements

FIGURES = {"loss": 3.0, "unigram_loss": 5.5, "masked_accuracy": 0.35}


def verdict(*texts):
    return judge(parse_requirements(texts), FIGURES)


@pytest.mark.parametrize(
    ("text", "blessed"),
    [
        ("masked_accuracy>=0.35", True),
        ("masked_accuracy>0.35", False),
        (" loss <= 3 ", True),
        ("loss<3e0", False),
        ("loss<unigram_loss", True),
        ("loss>unigram_loss", False),
        ("loss>=.5", True),
    ],
)
def test_one_threshold(text, blessed):
    assert verdict(text).blessed is blessed


def test_all_must_hold_and_each_has_its_reason():
    found = verdict("loss<=4", "masked_accuracy>=0.5")
    assert not found.blessed
    assert found.reasons == (
        "loss<=4: met (3)",
        "masked_accuracy>=0.5: not met (0.35)",
    )


def test_nothing_is_blessed_where_nothing_is_asked():
    assert not verdict().blessed
    assert "no threshold" in verdict().reasons[0]


def test_a_figure_that_is_not_defined_is_not_met():
    assert not verdict("accuracy_ratio>=0").blessed


@pytest.mark.parametrize("text", ["", "accuracy", "masked_accuracy=0.3", "loss<=", "loss<=0.3.1"])
def test_what_is_no_threshold_is_refused(text):
    with pytest.raises(UserError, match="is no threshold"):
        EvaluateConfig(require=(text,))


def test_a_misspelt_figure_is_refused_with_the_one_that_is_meant():
    with pytest.raises(UserError, match=r"got mask_acuracy\)\. Did you mean mask_accuracy\? Meas"):
        EvaluateConfig(require=("mask_acuracy>=0.2",))


@pytest.mark.parametrize("text", ["accuracy>=0.3", "loss<=lose"])
def test_unknown_figures_are_refused_with_the_known_ones(text):
    with pytest.raises(UserError, match=r"not measured.*masked_accuracy"):
        EvaluateConfig(require=(text,))
