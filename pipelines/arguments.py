"""A pipeline's arguments: from `k=v` on a command line to checked values.

KFP and Vertex AI check types late or not at all; here every value is checked against the
pipeline's own definition, and every stage's settings are built once, before anything runs.
"""

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from google.protobuf import json_format
from kfp.dsl.base_component import BaseComponent

from clozeflow.component import CUSTOM_JOB_FIELDS
from clozeflow.errors import UserError
from clozeflow.registry import STAGES

Spec = Mapping[str, Any]
"""A compiled pipeline, as JSON-like values."""


def spec_of(pipeline: BaseComponent) -> Spec:
    """The compiled form of a pipeline or component."""
    return json_format.MessageToDict(pipeline.pipeline_spec)


def parameter_definitions(spec: Spec) -> dict[str, Any]:
    """A pipeline's parameters: type, default, description."""
    return spec["root"].get("inputDefinitions", {}).get("parameters", {})


def parse_arguments(spec: Spec, assignments: Iterable[str]) -> dict[str, Any]:
    """The values of `k=v` texts, in the types that the pipeline gives its parameters.

    A list is given as JSON, or by giving the same parameter several times.
    """
    definitions = parameter_definitions(spec)
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise UserError("--param", "has no value", got=assignment, fix="Write NAME=VALUE.")
        _check_known(definitions, name)
        value = _parse(name, text, definitions[name]["parameterType"])
        if isinstance(value, list) and name in values:
            value = values[name] + value
        values[name] = value
    return values


def check_arguments(spec: Spec, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Every parameter's value, defaults included, after all checks that need no data.

    Raises:
        UserError: A parameter is unknown, missing, of another type, or out of a stage's range.
    """
    definitions = parameter_definitions(spec)
    for name, value in arguments.items():
        _check_known(definitions, name)
        _check_type(name, value, definitions[name]["parameterType"])
    values = {}
    for name, definition in definitions.items():
        if name not in arguments and "defaultValue" not in definition:
            raise UserError(
                f"parameter {name}", "has no value", fix=f"Give it: --param {name}=VALUE."
            )
        values[name] = _plain(arguments.get(name, definition.get("defaultValue")), definition)
    _check_stages(spec, values)
    return values


def _check_known(definitions: Mapping[str, Any], name: str) -> None:
    if name not in definitions:
        close = difflib.get_close_matches(name, definitions, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"Parameters: {', '.join(definitions)}."
        raise UserError("--param", "the pipeline has no such parameter", got=name, fix=hint)


def _parse(name: str, text: str, kind: str) -> Any:
    if kind == "STRING":
        return text
    if kind == "LIST" and not text.lstrip().startswith("["):
        return [text]
    try:
        return json.loads(text.lower() if kind == "BOOLEAN" else text)
    except ValueError:
        raise _wrong_type(name, text, kind) from None


_TYPES: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "STRING": ("text", (str,)),
    "NUMBER_INTEGER": ("an integer", (int, float)),
    "NUMBER_DOUBLE": ("a number", (int, float)),
    "BOOLEAN": ("true or false", (bool,)),
    "LIST": ("a list", (list,)),
    "STRUCT": ("a mapping", (dict,)),
}


def _check_type(name: str, value: Any, kind: str) -> None:
    accepted = _TYPES[kind][1]
    is_accepted = isinstance(value, accepted) and (isinstance(value, bool) <= (bool in accepted))
    if not is_accepted or (kind == "NUMBER_INTEGER" and value != int(value)):
        raise _wrong_type(name, value, kind)


def _wrong_type(name: str, value: Any, kind: str) -> UserError:
    words = _TYPES[kind][0]
    return UserError(
        f"parameter {name}",
        "has the wrong type",
        got=repr(value),
        expected=words,
        fix=f"Give {name} {words}.",
    )


def _plain(value: Any, definition: Mapping[str, Any]) -> Any:
    """A compiled spec has one type of number: an integer's default comes back as 8192.0."""
    return int(value) if definition["parameterType"] == "NUMBER_INTEGER" else value


def _check_stages(spec: Spec, values: Mapping[str, Any]) -> None:
    """Builds the config of each of our stages, which checks ranges and what goes together."""
    tasks = [
        (name, stage, settings)
        for name, component, settings in stage_tasks(spec, spec["root"], values)
        if (stage := stage_of(spec, component))
    ]
    # Preflight's settings are nearly all another stage's, whose name says more.
    for name, stage, settings in sorted(tasks, key=lambda task: task[1] == "preflight"):
        try:
            STAGES[stage].config.from_mapping(settings)
        except UserError as error:
            raise UserError(
                f"task {name}: {error.where}",
                error.what,
                got=error.got,
                expected=error.expected,
                fix=error.fix,
            ) from None


def stage_tasks(
    spec: Spec, graph: Mapping[str, Any], values: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any], dict[str, Any]]]:
    """Name, component and settings of each task, in graphs within graphs too.

    A task of which a setting is known only when the pipeline runs is left out.
    """
    for name, task in graph.get("dag", {}).get("tasks", {}).items():
        component = spec["components"][task["componentRef"]["name"]]
        settings = _settings(task, component, values)
        if "dag" in component:
            yield from stage_tasks(spec, component, settings or {})
        elif settings is not None:
            yield name, component, settings


def stage_of(spec: Spec, component: Mapping[str, Any]) -> str | None:
    """The stage that a component runs, if it is one of ours, also wrapped as a custom job."""
    container = container_of(spec, component)
    command = [*container.get("command", []), *container.get("args", [])]
    name = command[1] if command[:1] == ["clozeflow-component"] else None
    return name if name in STAGES else None


def container_of(spec: Spec, component: Mapping[str, Any]) -> dict[str, Any]:
    """A component's image, command and arguments: the job's own where it is a custom job."""
    parameters = component.get("inputDefinitions", {}).get("parameters", {})
    pools = parameters.get("worker_pool_specs", {}).get("defaultValue")
    if pools:
        container = pools[0]["container_spec"]
        return {**container, "image": container["image_uri"]}
    executor = spec["deploymentSpec"]["executors"][component["executorLabel"]]
    return executor.get("container", {})


def _settings(
    task: Mapping[str, Any], component: Mapping[str, Any], values: Mapping[str, Any]
) -> dict[str, Any] | None:
    """A task's settings, or None where one of them is known only when the pipeline runs."""
    given = task.get("inputs", {}).get("parameters", {})
    settings = {}
    for name, definition in component.get("inputDefinitions", {}).get("parameters", {}).items():
        source = given.get(name)
        if source is None:
            settings[name] = definition.get("defaultValue")
        elif "componentInputParameter" in source:
            settings[name] = values.get(source["componentInputParameter"])
        elif "runtimeValue" in source:
            settings[name] = source["runtimeValue"].get("constant")
        else:
            return None
    return {
        name: value
        for name, value in settings.items()
        if value is not None and name not in CUSTOM_JOB_FIELDS
    }


def bucket_of(pipeline_root: str) -> str:
    """The bucket of a `gs://` folder.

    Raises:
        UserError: It is no such folder.
    """
    match = re.fullmatch(r"gs://([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(/.*)?", pipeline_root)
    if not match:
        raise UserError(
            "--pipeline-root",
            "is no folder of a bucket",
            got=pipeline_root,
            expected="gs://BUCKET/FOLDER; a bucket's name has 3 characters or more: small letters, "
            "digits, dots, dashes and underlines",
            fix="Give the folder of a bucket.",
        )
    return match[1]
