import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeflow.shards import order
from clozeflow.shards.order import Order, permutation

SIZES = st.lists(st.integers(1, 30), min_size=1, max_size=12).map(tuple)
PERMUTATION = [1, 3, 6, 8, 9, 2, 4, 7, 0, 5]


@pytest.fixture(autouse=True, scope="module")
def _small_windows():
    patch = pytest.MonkeyPatch()
    patch.setattr(order, "WINDOW_TOKENS", 600)
    yield
    patch.undo()


def make(sizes, seed=0):
    return Order(sizes=sizes, seq_len=8, seed=seed)


def pairs(the_order, start, stop):
    return list(zip(*(a.tolist() for a in the_order.rows(start, stop)), strict=True))


@given(SIZES, st.integers(0, 5), st.integers(0, 3))
def test_an_epoch_is_a_permutation(sizes, seed, epoch):
    n = sum(sizes)
    found = pairs(make(sizes, seed), epoch * n, (epoch + 1) * n)
    assert sorted(found) == [(s, r) for s, size in enumerate(sizes) for r in range(size)]


@given(SIZES, st.integers(0, 100), st.integers(1, 50))
def test_any_stretch_is_the_same_wherever_one_begins(sizes, start, length):
    whole = pairs(make(sizes), 0, start + length)
    assert pairs(make(sizes), start, start + length) == whole[start:]


def test_seeds_and_epochs_differ():
    sizes = (50, 50, 50)
    orders = [pairs(make(sizes, seed), e * 150, e * 150 + 150) for seed in (0, 1) for e in (0, 1)]
    for one, other in itertools.combinations(orders, 2):
        assert one != other


@given(SIZES)
@settings(max_examples=30)
def test_windows_hold_neighbours_only(sizes):
    the_order = make(sizes)
    per_window = max(1, 600 // (max(sizes) * 8))
    for window in itertools.islice(the_order.windows(0), 10):
        assert len(window.shards) <= per_window
        assert len(window.order) == sum(sizes[s] for s in window.shards)


def test_a_distant_step_costs_what_the_first_does():
    sizes = (100,) * 50
    first = next(make(sizes).windows(0))
    distant = next(make(sizes).windows(10**12))
    assert distant.start <= 10**12 < distant.start + len(distant.order)
    assert len(first.order) == len(distant.order)


def test_permutations_do_not_drift():
    # Written down once: another numpy, or another machine, must give the same order.
    assert permutation(10, 0, 1).tolist() == PERMUTATION
    assert permutation(10, "train", 3).tolist() != PERMUTATION


@given(st.integers(0, 200), st.integers(0, 9))
def test_permutation_is_one(size, key):
    assert sorted(permutation(size, key).tolist()) == list(range(size))


def test_places_are_even():
    counts = np.zeros((8, 8), int)
    for seed in range(4000):
        counts[np.arange(8), permutation(8, seed)] += 1
    # Expected 500 in each cell; six standard deviations are 126.
    assert counts.min() > 374
    assert counts.max() < 626
