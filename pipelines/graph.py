"""What a pipeline's function needs and KFP does not have."""

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kfp import dsl
from kfp.dsl.base_component import BaseComponent

from clozeflow.config import StageConfig
from components.documentation import documented_by
from components.preflight.component import preflight
from components.publish.component import publish
from components.summary.component import summary
from components.train.component import train
from pipelines.resources import resources_of

_RETRY_AFTER = "60s"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variant:
    """What differs between the places that a pipeline is compiled for."""

    train: BaseComponent = train
    """The component that trains: ours, or ours wrapped as a job of the place."""
    settle_train: Callable[[dsl.PipelineTask], None] = lambda task: None
    """What a training task is told besides its settings: caching, machines."""
    job_parameters: Mapping[str, type] = dataclasses.field(default_factory=dict)
    """Parameters that the pipeline gets besides its own, and hands on to that component."""
    job_descriptions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fixed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Parameters of a pipeline that the place decides: there they are none."""
    num_retries: int = 0
    """How often a task that failed is tried again, training apart."""
    corpus_gib: float = 0.0
    """The raw text that machines are chosen for; 0 leaves that to the place."""
    notified: tuple[str, ...] = ()
    """Addresses that are told of the run's end (by Vertex AI)."""

    def task(
        self,
        name: str,
        component: BaseComponent,
        values: Mapping[str, Any],
        *,
        leave_out: tuple[str, ...] = (),
        **artifacts: Any,
    ) -> dsl.PipelineTask:
        """A task of the pipeline, with its name for people, its retries and its machine.

        Args:
            name: For people.
            component: What the task runs.
            values: The pipeline's parameters: the task gets those that its component has too.
            leave_out: Parameters that mean something else to this component.
            **artifacts: Its inputs.
        """
        own = (component.component_spec.inputs or {}).keys() - set(leave_out)
        given = {key: value for key, value in values.items() if key in own}
        task = component(**{**given, **artifacts}).set_display_name(name)
        if component is self.train:
            self.settle_train(task)
            return task
        if self.num_retries and component is not preflight:  # what does not fit never will
            task.set_retry(num_retries=self.num_retries, backoff_duration=_RETRY_AFTER)
        if self.corpus_gib:
            needs = resources_of(component.name, self.corpus_gib)
            task.set_cpu_limit(str(needs.num_cores)).set_memory_limit(f"{needs.memory_gib}Gi")
        return task

    def train_after_preflight(
        self, values: Mapping[str, Any], *, first: int, **artifacts: Any
    ) -> dsl.PipelineTask:
        """Trains, once the step is known to fit where a TPU is to train.

        Args:
            values: The pipeline's parameters.
            first: The number of the first of the two tasks, for people.
            **artifacts: The shards and their tokenizer.
        """
        # In a pipeline `require` is a list of thresholds for the evaluation.
        known = self.task(
            f"{first} Preflight", preflight, values, leave_out=("require",), **artifacts
        )
        return self.task(f"{first + 1} Training", self.train, values, **artifacts).after(known)

    def publish_if_blessed(
        self,
        name: str,
        values: Mapping[str, Any],
        evaluated: dsl.PipelineTask,
        *,
        model: Any,
    ) -> None:
        """Publishes the model if the pipeline is told where to and its evaluation blesses it.

        Args:
            name: For people.
            values: The pipeline's parameters.
            evaluated: The task that evaluated it.
            model: The model.
        """
        with (
            dsl.If(values["publish_to"] != "", name="Asked to publish"),
            dsl.If(evaluated.outputs["blessed"] == True, name="Blessed"),  # noqa: E712
        ):
            evaluation = evaluated.outputs["evaluation"]
            task = self.task(name, publish, values, model=model, evaluation=evaluation)
            task.set_caching_options(False)  # what was published once may be gone

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


def imported(uri: object, kind: type[dsl.Artifact], name: str) -> Any:
    """An importer node's artifact: a folder that an earlier run finished."""
    task = dsl.importer(artifact_uri=uri, artifact_class=kind, reimport=False)
    task.set_display_name(name)
    return task.output


def with_parameters_of(
    other: Callable[..., None], *, leave_out: tuple[str, ...]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a pipeline's function, in place of its `**values`, the parameters of another's.

    Args:
        other: The function of a pipeline.
        leave_out: Parameters of it that the decorated function does not take.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        own = [p for p in inspect.signature(function).parameters.values() if p.name != "values"]
        taken = {p.name for p in own} | set(leave_out)
        theirs = inspect.signature(other).parameters.values()
        signature = inspect.Signature([*own, *(p for p in theirs if p.name not in taken)])
        function.__signature__ = signature  # type: ignore[attr-defined]
        return function

    return decorate


def make_pipeline(
    function: Callable[..., None],
    variant: Variant,
    *configs: type[StageConfig],
    name: str,
    display_name: str,
) -> BaseComponent:
    """The pipeline of a function whose first parameter is the variant.

    Args:
        function: Makes the graph. Its `**job` become the parameters that the variant names.
        variant: The place to compile for.
        *configs: They describe the parameters that the function's docstring does not.
        name: The pipeline's name.
        display_name: The name for people.
    """
    graph = documented_by(*configs)(_with_job_parameters(function, variant))
    return dsl.pipeline(name=name, display_name=display_name)(graph)


def _with_job_parameters(function: Callable[..., None], variant: Variant) -> Callable[..., None]:
    """KFP reads parameters from a signature; so it is made to say what is wanted.

    Required ones come first, as Python demands.
    """
    parameters = inspect.signature(function).parameters.values()
    own = [p for p in parameters if p.name not in ("variant", "job", *variant.fixed)]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    job = [
        inspect.Parameter(name, kind, annotation=type_)
        for name, type_ in variant.job_parameters.items()
    ]
    signature = inspect.Signature([*job, *own])

    @functools.wraps(function)
    def wrapper(*args: Any) -> None:
        given = dict(zip(signature.parameters, args, strict=True))
        taken = inspect.signature(function).parameters
        fixed = {name: value for name, value in variant.fixed.items() if name in taken}
        function(variant, **fixed, **given)

    wrapper.__signature__ = signature  # type: ignore[attr-defined]
    lines = [f"    {name}: {text}" for name, text in variant.job_descriptions.items()]
    wrapper.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), *lines])
    return wrapper
