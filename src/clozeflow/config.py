"""The base of every stage's settings: a frozen dataclass, checked when it is made.

A stage's settings have one home. The command line's flags, the component's parameters and
the manifest's `config` are all made from the dataclass's fields and bear their names.
A field is an `int`, `float`, `bool`, `str`, a `StrEnum`, or a tuple of `str`; the empty
string and zero stand for "not set" where a field's docstring says so.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import math
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

from clozeflow.errors import UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class StageConfig:
    """Settings of one stage: immutable, typed, validated, with unknown keys refused."""

    DOES_NOT_SHAPE_RESULT: ClassVar[frozenset[str]] = frozenset()
    """Fields that change how the work is done and not what comes out: workers, paths."""

    def __post_init__(self) -> None:
        types = typing.get_type_hints(type(self))
        for field in dataclasses.fields(self):
            value = _convert(field.name, getattr(self, field.name), types[field.name])
            object.__setattr__(self, field.name, value)
        self.validate()

    def validate(self) -> None:
        """Raises `UserError` where values do not make sense; each config adds its own checks."""

    def check_locations(self, locations: Iterable[str]) -> None:
        """Raises `UserError` where the work, as these settings have it, cannot reach a place.

        Args:
            locations: The folders of the stage's inputs and of its output.
        """

    def check(self, name: str, condition: bool, expected: str) -> None:
        """Refuses the value of the field `name` unless `condition` holds."""
        if not condition:
            raise UserError(
                flag(name),
                "is out of range",
                got=repr(getattr(self, name)),
                expected=expected,
                fix=f"Give {flag(name)} a value that is {expected}.",
            )

    def check_one(self, names: Sequence[str]) -> None:
        """Refuses more than one of the fields that stand in each other's place."""
        given = [name for name in names if getattr(self, name)]
        if len(given) > 1:
            raise UserError(
                " and ".join(map(flag, given)),
                "are given together, and each is in place of the other",
                got=", ".join(repr(getattr(self, name)) for name in given),
                expected=f"at most one of {', '.join(map(flag, names))}",
                fix="Leave out all but one.",
            )

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """Makes a config from JSON-like values, for example a component's parameters."""
        names = [field.name for field in dataclasses.fields(cls)]
        for key in mapping:
            if key not in names:
                raise _unknown_key(cls, key, names)
        return cls(**mapping)

    def to_dict(self) -> dict[str, Any]:
        """Every setting as JSON-serialisable values."""
        return {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}

    def shaping_settings(self) -> dict[str, Any]:
        """The settings that shape the result: what the fingerprint covers."""
        return {k: v for k, v in self.to_dict().items() if k not in self.DOES_NOT_SHAPE_RESULT}

    def has_sources(self) -> bool:
        """Whether the stage, if it reads data from outside, does so with these settings."""
        return True


def flag(name: str) -> str:
    """The command line's name of a field: `seq_len` becomes `--seq-len`."""
    return "--" + name.replace("_", "-")


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


def _unknown_key(cls: type, key: str, names: Iterable[str]) -> UserError:
    close = difflib.get_close_matches(key, list(names), n=1)
    hint = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(sorted(names))}."
    return UserError(cls.__name__, f"there is no setting {key!r}", fix=hint)


def _convert(name: str, value: Any, annotation: Any) -> Any:
    """The value in the field's own type, or a `UserError` that names both types."""
    if typing.get_origin(annotation) is tuple:
        if isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value):
            return tuple(value)
        raise _wrong_type(name, value, "a list of strings")
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        choices = [member.value for member in annotation]
        if value not in choices:
            raise _wrong_type(name, value, f"one of {', '.join(choices)}")
        return annotation(value)
    return _convert_scalar(name, value, annotation)


def _convert_scalar(name: str, value: Any, annotation: type) -> Any:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if annotation is float and is_number and math.isfinite(value):
        return float(value)
    # JSON has one number type: KFP hands an int back as 8192.0.
    if annotation is int and is_number and math.isfinite(value) and value == int(value):
        return int(value)
    if annotation in (bool, str) and isinstance(value, annotation):
        return value
    raise _wrong_type(
        name, value, {int: "an integer", float: "a number"}.get(annotation, annotation.__name__)
    )


def _wrong_type(name: str, value: Any, expected: str) -> UserError:
    return UserError(
        flag(name),
        "has the wrong type or value",
        got=f"{value!r} ({type(value).__name__})",
        expected=expected,
        fix=f"Give {flag(name)} {expected}.",
    )
