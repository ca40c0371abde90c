"""Settings: typed, validated, unknown ones refused."""

import dataclasses
import enum
from typing import ClassVar

import pytest

from clozeflow.config import StageConfig
from clozeflow.errors import UserError
from clozeflow.registry import STAGES


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample(StageConfig):
    DOES_NOT_SHAPE_RESULT: ClassVar[frozenset[str]] = frozenset({"workers"})
    size: int = 8
    rate: float = 0.5
    colour: Colour = Colour.RED
    names: tuple[str, ...] = ()
    fast: bool = False
    workers: int = 1

    def validate(self) -> None:
        self.check("size", self.size > 0, "above 0")


def test_json_values_become_the_fields_own_types():
    config = Sample.from_mapping({"size": 3.0, "rate": 1, "colour": "blue", "names": ["a"]})
    assert (config.size, config.rate, config.colour, config.names) == (3, 1.0, Colour.BLUE, ("a",))
    assert isinstance(config.size, int)
    assert isinstance(config.rate, float)


@pytest.mark.parametrize(
    "value",
    [
        {"size": "3"},
        {"size": 3.5},
        {"size": True},
        {"size": float("nan")},
        {"rate": "0.1"},
        {"rate": float("inf")},
        {"fast": 1},
        {"fast": "true"},
        {"colour": "green"},
        {"names": "a"},
        {"names": [1]},
        {"size": None},
    ],
)
def test_other_types_are_refused_by_name(value):
    (name,) = value
    with pytest.raises(UserError, match=f"--{name}"):
        Sample.from_mapping(value)


def test_unknown_setting_is_refused_with_the_nearest_known_one():
    with pytest.raises(UserError, match=r"no setting 'siez'.*Did you mean 'size'"):
        Sample.from_mapping({"siez": 3})


def test_value_out_of_range_says_got_expected_and_what_to_do():
    with pytest.raises(
        UserError, match=r"--size: is out of range \(got 0, expected above 0\)\. Give"
    ):
        Sample(size=0)


def test_only_shaping_settings_are_fingerprinted():
    assert Sample(workers=1).shaping_settings() == Sample(workers=8).shaping_settings()
    assert Sample(size=1).shaping_settings() != Sample(size=2).shaping_settings()


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_every_stage_has_defaults_that_survive_json(stage):
    config = stage.config()
    assert stage.config.from_mapping(config.to_dict()) == config


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_excluded_settings_exist(stage):
    assert set(stage.config().to_dict()) >= stage.config.DOES_NOT_SHAPE_RESULT
