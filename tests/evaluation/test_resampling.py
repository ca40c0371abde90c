"""Bootstrap intervals: the weights, their pairing, and what they cover."""

import numpy as np
import pytest

from clozeflow.evaluation import resampling
from clozeflow.evaluation.resampling import Resamples, interval, row_weights


def test_rows_are_counted_as_often_as_poisson_says():
    weights = row_weights(np.arange(2000))
    share = np.bincount(weights.astype(int).ravel(), minlength=4)[:4] / weights.size
    assert share == pytest.approx([0.36788, 0.36788, 0.18394, 0.06131], abs=0.002)
    assert np.corrcoef(weights[:, 0], weights[:, 1])[0, 1] == pytest.approx(0, abs=0.1)


def test_weights_depend_on_the_row_alone():
    assert (row_weights(np.array([7, 3])) == row_weights(np.arange(8))[[7, 3]]).all()


def test_the_interval_of_a_mean_is_that_of_its_standard_error():
    values = np.random.default_rng(0).normal(5.0, 2.0, size=4000)
    resamples = Resamples(2)
    for start in range(0, len(values), 300):
        part = np.arange(start, min(start + 300, len(values)))
        resamples.add(part, np.stack([np.ones(len(part)), values[part]], axis=1))
    low, high = interval(resamples.sums[:, 1] / resamples.sums[:, 0])
    error = values.std() / np.sqrt(len(values))
    assert (low, high) == pytest.approx(
        (values.mean() - 1.96 * error, values.mean() + 1.96 * error), abs=0.25 * error
    )


def test_what_most_resamples_do_not_define_has_no_interval():
    values = np.full(resampling.NUM_RESAMPLES, np.nan)
    values[:10] = 1.0
    assert interval(values) is None
