"""Learning rates and durations."""

import numpy as np
import pytest
import tensorflow as tf

from clozeflow.errors import UserError
from clozeflow.training.config import ScheduleName, TrainConfig
from clozeflow.training.durations import in_steps
from clozeflow.training.schedules import make_schedule

NUM_STEPS = 100


def rates(**settings) -> np.ndarray:
    config = TrainConfig(
        num_train_steps=NUM_STEPS, warmup_steps=10, peak_learning_rate=0.5, **settings
    )
    return make_schedule(config, NUM_STEPS)(tf.range(NUM_STEPS)).numpy()


@pytest.mark.parametrize("schedule", ScheduleName)
def test_every_schedule_rises_to_the_peak_and_never_beyond(schedule: ScheduleName) -> None:
    found = rates(schedule=schedule)
    np.testing.assert_allclose(found[:10], 0.5 * np.arange(1, 11) / 10, rtol=1e-6)
    assert found.max() <= 0.5
    assert (np.diff(found[10:]) <= 1e-7).all()
    assert found.min() > 0


def test_linear_and_cosine_end_near_zero() -> None:
    assert rates(schedule=ScheduleName.LINEAR)[-1] == pytest.approx(0.5 / 90)
    cosine = rates(schedule=ScheduleName.COSINE)
    assert cosine[-1] < 0.5 / 1000
    assert cosine[55] == pytest.approx(0.25, rel=1e-5)


def test_wsd_is_flat_until_its_last_share() -> None:
    found = rates(schedule=ScheduleName.WSD, decay_share=0.2)
    np.testing.assert_allclose(found[10:81], 0.5)
    np.testing.assert_allclose(found[81:], 0.5 * np.arange(19, 0, -1) / 20, rtol=1e-6)


def test_inverse_root() -> None:
    found = rates(schedule=ScheduleName.INVERSE_ROOT)
    assert found[39] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("settings", "num_steps"),
    [
        ({}, 400),
        ({"num_train_steps": 7}, 7),
        ({"num_train_epochs": 2.5}, 25),
        ({"num_train_tokens": 1_000_000}, 79),
    ],
)
def test_durations_in_steps(settings: dict, num_steps: int) -> None:
    config = TrainConfig(global_batch_size=100, warmup_steps=5, **settings)
    resolved = in_steps(config, num_examples=1000, seq_len=128)
    assert resolved.num_train_steps == num_steps
    assert in_steps(resolved, num_examples=1000, seq_len=128) == resolved


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"num_train_steps": 10, "num_train_epochs": 1.0}, "--num-train-steps and --num-train-epo"),
        ({"num_train_epochs": 1.0, "num_train_tokens": 5}, "at most one of --num-train-steps, --n"),
        ({"model_config": "a", "init_from": "b"}, "--model-config and --init-from: are given tog"),
        ({"num_train_steps": 40, "warmup_steps": 40}, "--warmup-steps"),
        ({"warmup_steps": 400}, "--warmup-steps"),
        ({"num_train_steps": -1}, "--num-train-steps"),
        ({"mask_share": 0.8, "random_share": 0.3}, "--random-share"),
        ({"gradient_accumulation_steps": 0}, "--gradient-accumulation-steps"),
    ],
)
def test_nonsense_is_refused(settings: dict, named: str) -> None:
    with pytest.raises(UserError, match=named):
        TrainConfig(**settings)


@pytest.mark.parametrize(("num_steps", "warmup_steps"), [(1, 0), (40, 4), (400, 40)])
def test_the_warm_up_is_a_tenth_of_the_run_where_nothing_is_said(num_steps, warmup_steps) -> None:
    config = in_steps(TrainConfig(num_train_steps=num_steps), num_examples=1000, seq_len=128)
    assert config.warmup_steps == warmup_steps


def test_a_warm_up_longer_than_the_epochs_is_refused() -> None:
    config = TrainConfig(num_train_epochs=1.0, global_batch_size=100, warmup_steps=10)
    with pytest.raises(UserError, match="--warmup-steps"):
        in_steps(config, num_examples=1000, seq_len=128)
