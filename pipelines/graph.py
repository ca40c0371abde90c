"""What a pipeline's function needs and KFP does not have."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from kfp.dsl import PipelineTask

from components.train.component import train


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variant:
    """What differs between the places that a pipeline is compiled for."""

    train: Callable[..., PipelineTask] = train
    """The component that trains: ours, or ours wrapped as a job of the place."""
    job_parameters: Mapping[str, type] = dataclasses.field(default_factory=dict)
    """Parameters that the pipeline gets besides its own, and hands on to that component."""
    job_descriptions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    data_retries: int = 0
    """How often a data stage that failed is tried again."""


HERE = Variant()
"""Any place that runs containers, and this machine."""


def with_job_parameters(variant: Variant) -> Callable[[Callable], Callable]:
    """A decorator: the function's `**job` become the parameters that the variant names.

    KFP reads a pipeline's parameters from its function's signature; so the signature is made to
    say what is wanted, required ones first, as Python demands.
    """

    def decorate(function: Callable) -> Callable:
        own = [p for p in inspect.signature(function).parameters.values() if p.name != "job"]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        job = [
            inspect.Parameter(name, kind, annotation=type_)
            for name, type_ in variant.job_parameters.items()
        ]
        signature = inspect.Signature([*job, *own])

        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            return function(**dict(zip(signature.parameters, args, strict=True)))

        wrapper.__signature__ = signature  # type: ignore[attr-defined]
        lines = [f"    {name}: {text}" for name, text in variant.job_descriptions.items()]
        wrapper.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), *lines])
        return wrapper

    return decorate
