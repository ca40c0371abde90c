"""Descriptions of parameters, taken from where the settings are defined.

A config documents each field by the string below it. KFP reads descriptions from the `Args:` of
a function's docstring: this carries them there, so that no description is written twice.
"""

import ast
import enum
import inspect
from collections.abc import Callable
from typing import TypeVar

from clozeflow.config import StageConfig

Function = TypeVar("Function", bound=Callable)


def documented_by(*configs: type[StageConfig]) -> Callable[[Function], Function]:
    """A decorator that adds to a docstring's `Args:` what the configs say of the parameters.

    An `Args:` section that is there must be last, or stand before `Returns:` (where KFP looks for
    what outputs are). The first config that has a field of the parameter's name describes it.
    """
    texts: dict[str, str] = {}
    for config in reversed(configs):
        texts.update(field_descriptions(config))

    def decorate(function: Function) -> Function:
        own = inspect.cleandoc(function.__doc__ or "")
        names = [name for name in inspect.signature(function).parameters if name in texts]
        lines = [f"    {name}: {texts[name]}" for name in names if f"    {name}:" not in own]
        arguments, returns, outputs = own.partition("\n\nReturns:")
        heading = [] if "\nArgs:" in arguments else ["\nArgs:"]
        function.__doc__ = "\n".join([arguments, *heading, *lines]) + returns + outputs
        return function

    return decorate


def field_descriptions(config: type[StageConfig]) -> dict[str, str]:
    """Each field's description: the string that stands below it in the source, on one line."""
    found: dict[str, str] = {}
    for ancestor in reversed(config.__mro__):
        if issubclass(ancestor, StageConfig):
            found |= own_descriptions(ancestor)
    return found


def choice_descriptions(choices: type[enum.Enum]) -> dict[str, str]:
    """What the members' values mean, as far as a string below them in the source says so."""
    return {choices[name].value: text for name, text in own_descriptions(choices).items()}


def own_descriptions(described: type) -> dict[str, str]:
    """What stands below a class's annotated fields, or an enum's members, by their names."""
    body = ast.parse(inspect.cleandoc("\n" + inspect.getsource(described))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign | ast.Assign) and isinstance(after, ast.Expr):
            target = field.target if isinstance(field, ast.AnnAssign) else field.targets[0]
            assert isinstance(target, ast.Name)
            assert isinstance(after.value, ast.Constant)
            found[target.id] = " ".join(str(after.value.value).split())
    return found
