"""Descriptions of parameters, taken from where the settings are defined.

A config documents each field by the string below it. KFP reads descriptions from the `Args:` of
a function's docstring: this carries them there, so that no description is written twice.
"""

import ast
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
            found |= _own_descriptions(ancestor)
    return found


def _own_descriptions(config: type[StageConfig]) -> dict[str, str]:
    body = ast.parse(inspect.cleandoc("\n" + inspect.getsource(config))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr):
            assert isinstance(field.target, ast.Name)
            assert isinstance(after.value, ast.Constant)
            found[field.target.id] = " ".join(str(after.value.value).split())
    return found
