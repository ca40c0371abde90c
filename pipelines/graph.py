"""What a pipeline's function needs and KFP does not have."""

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kfp import dsl

from components.summary.component import summary
from components.train.component import train
from pipelines.resources import resources_of

_RETRY_AFTER = "60s"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variant:
    """What differs between the places that a pipeline is compiled for."""

    train: Callable[..., dsl.PipelineTask] = train
    """The component that trains: ours, or ours wrapped as a job of the place."""
    settle_train: Callable[[dsl.PipelineTask], None] = lambda task: None
    """What a training task is told besides its settings: caching, machines."""
    job_parameters: Mapping[str, type] = dataclasses.field(default_factory=dict)
    """Parameters that the pipeline gets besides its own, and hands on to that component."""
    job_descriptions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    num_retries: int = 0
    """How often a task that failed is tried again, training apart."""
    corpus_gib: float = 0.0
    """The raw text that machines are chosen for; 0 leaves that to the place."""
    notified: tuple[str, ...] = ()
    """Addresses that are told of the run's end (by Vertex AI)."""

    def settle(self, task: dsl.PipelineTask, name: str, stage: str) -> dsl.PipelineTask:
        """Gives a task its name for people, its retries and its machine."""
        task.set_display_name(name)
        if stage == "train":
            self.settle_train(task)
            return task
        if self.num_retries:
            task.set_retry(num_retries=self.num_retries, backoff_duration=_RETRY_AFTER)
        if self.corpus_gib:
            needs = resources_of(stage, self.corpus_gib)
            task.set_cpu_limit(str(needs.num_cores)).set_memory_limit(f"{needs.memory_gib}Gi")
        return task

    @contextlib.contextmanager
    def summed_up(self) -> Iterator[None]:
        """The tasks inside are followed by a summary, and by messages, whatever their end."""
        with contextlib.ExitStack() as stack:
            if self.notified:
                from google_cloud_pipeline_components.v1.vertex_notification_email import (
                    VertexNotificationEmailOp,
                )

                notify = VertexNotificationEmailOp(recipients=list(self.notified))
                stack.enter_context(dsl.ExitHandler(notify, name="Run, with its summary"))
            last = summary().set_caching_options(False).set_display_name("Summary")
            stack.enter_context(dsl.ExitHandler(last, name="Run"))
            yield


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
