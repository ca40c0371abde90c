"""What a compiled pipeline does not say, and a backend says late or never.

Each check looks for one trap that was met by trying, and names the cure. A check is a function
from a compiled pipeline to findings; a new trap is a new function.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import yaml
from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp

from clozeflow.slices import SLICES, Generation, Slice
from pipelines.arguments import Spec, spec_of

EXECUTOR_INPUT = "{{$}}"
_MAX_ARGUMENT_CHARACTERS = 10_000
_RAW_PLACEHOLDERS = ('"IfPresent"', '"Concat"', "{'IfPresent'", "{'Concat'")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """One trap: where it is, what happens, what to do."""

    where: str
    what: str
    cure: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}. {self.cure}"


def lint(text: str) -> list[Finding]:
    """The findings of every check, on a compiled pipeline's YAML."""
    documents = list(yaml.safe_load_all(text))
    return [
        *_second_document(documents),
        *(finding for check in CHECKS for finding in check(documents[0])),
    ]


def untagged(findings: Sequence[Finding]) -> list[Finding]:
    """The findings that concern images without a digest."""
    return [finding for finding in findings if finding.what == _MUTABLE]


def _components(spec: Spec) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Name, definition and container of every component that runs one."""
    executors = spec["deploymentSpec"]["executors"]
    for name, component in spec["components"].items():
        container = executors.get(component.get("executorLabel"), {}).get("container")
        if container:
            yield name.removeprefix("comp-"), component, container


def _inputs(component: Mapping[str, Any]) -> Mapping[str, Any]:
    return component.get("inputDefinitions", {}).get("parameters", {})


def jobs(spec: Spec) -> Iterator[tuple[str, Mapping[str, Any], list[dict[str, Any]]]]:
    """Name, definition and worker pools of every component that is a custom job."""
    for name, component, _ in _components(spec):
        pools = _inputs(component).get("worker_pool_specs", {}).get("defaultValue")
        if isinstance(pools, list) and pools:
            yield name, component, pools


def _tasks(spec: Spec) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every task, in graphs within graphs too."""
    for graph in (spec["root"], *spec["components"].values()):
        yield from graph.get("dag", {}).get("tasks", {}).items()


def _second_document(documents: Sequence[Any]) -> Iterator[Finding]:
    if len(documents) > 1 and any(True for _ in jobs(documents[0])):
        yield Finding(
            where="pipeline",
            what="has settings for Kubernetes, and Vertex AI refuses the second document",
            cure="Take kfp-kubernetes' settings out, or compile with --target kfp.",
        )


def _executor_input(spec: Spec) -> Iterator[Finding]:
    """Only an argument equal to `{{$}}` is escaped inside a custom job's payload."""
    places = [(name, [c]) for name, _, c in _components(spec)]
    places += [(name, [pool["container_spec"] for pool in pools]) for name, _, pools in jobs(spec)]
    for name, containers in places:
        for container in containers:
            for word in [*container.get("command", []), *container.get("args", [])]:
                if EXECUTOR_INPUT in word and word != EXECUTOR_INPUT:
                    yield Finding(
                        where=f"component {name}",
                        what=f"has the executor input inside a longer argument, {word[:60]!r}",
                        cure="Make {{$}} an argument of its own.",
                    )


_FIELD_VALUES = {
    "strategy": r"STANDARD|SPOT|FLEX_START|ON_DEMAND|LOW_COST",
    "timeout": r"\d+(\.\d+)?s",
    "max_wait_duration": r"\d+(\.\d+)?s",
}
"""What the defaults of a job's fields look like, where anything else is no such field."""


def _overridden_fields(spec: Spec) -> Iterator[Finding]:
    """An input of the wrapped component's that bears a field's name replaces its definition."""
    (own,) = spec_of(CustomTrainingJobOp)["components"].values()
    for name, component, _ in jobs(spec):
        for field, definition in _inputs(own).items():
            found = _inputs(component).get(field, {})
            pattern = _FIELD_VALUES.get(field, r"(?s).*")
            is_same = found.get("parameterType") == definition["parameterType"]
            if not is_same or not re.fullmatch(pattern, str(found.get("defaultValue", ""))):
                yield Finding(
                    where=f"component {name}",
                    what=f"its input {field!r} takes the place of the custom job's field",
                    cure="Rename the input.",
                )


def _raw_placeholders(spec: Spec) -> Iterator[Finding]:
    for name, _, pools in jobs(spec):
        text = json.dumps(pools)
        text = text.replace('\\"', '"')
        if any(word in text for word in _RAW_PLACEHOLDERS):
            yield Finding(
                where=f"component {name}",
                what="IfPresent and Concat stay as they are inside a custom job",
                cure="Take them out of the arguments: the executor input says what is present.",
            )


def _launcher_settings(spec: Spec) -> Iterator[Finding]:
    names = {name for name, _, _ in jobs(spec)}
    for name, _, container in _components(spec):
        changed = sorted({"resources", "env"} & set(container))
        if name in names and changed:
            yield Finding(
                where=f"component {name}",
                what=f"{' and '.join(changed)} of the task change the launcher, not the job",
                cure="Choose machines by the slice, and variables in the image.",
            )


def _worker_pools(spec: Spec) -> Iterator[Finding]:
    for name, _, pools in jobs(spec):
        is_tpu = any(_is_tpu(pool["machine_spec"]) for pool in pools)
        if is_tpu and (len(pools) > 1 or int(pools[0]["replica_count"]) != 1):
            yield Finding(
                where=f"component {name}",
                what="a TPU job has one pool with one replica, whatever its number of hosts",
                cure="Leave replica_count at 1.",
            )


def _is_tpu(machine: Mapping[str, Any]) -> bool:
    kind, accelerator = machine["machine_type"], machine.get("accelerator_type", "")
    return kind.startswith(("cloud-tpu", "ct5lp", "ct6e")) or accelerator.startswith("TPU_")


def _machines(spec: Spec) -> Iterator[Finding]:
    for name, _, pools in jobs(spec):
        for pool in pools:
            machine = pool["machine_spec"]
            tpu = slice_of(machine)
            if _is_tpu(machine) and tpu is None:
                yield Finding(
                    where=f"component {name}",
                    what=f"no slice is asked for by {json.dumps(machine, sort_keys=True)}",
                    cure=f"Machines and topologies that go together: {_offers(machine)}.",
                )
            elif tpu and tpu.num_hosts > 1 and pool["container_spec"].get("command"):
                yield Finding(
                    where=f"component {name}",
                    what="a command hides the entry point of the pod image",
                    cure="Put every word into args.",
                )


def slice_of(machine: Mapping[str, Any]) -> Slice | None:
    """The slice that a job's machine is asked for by."""
    asked = (
        machine["machine_type"],
        machine.get("tpu_topology", ""),
        machine.get("accelerator_type", ""),
        int(machine.get("accelerator_count", 0)),
    )
    for tpu in SLICES.values():
        if asked == (tpu.machine_type, tpu.topology, tpu.accelerator_type, tpu.accelerator_count):
            return tpu
    return None


def _offers(machine: Mapping[str, Any]) -> str:
    same = [tpu for tpu in SLICES.values() if tpu.machine_type == machine["machine_type"]]
    shown = same or [SLICES["v5e-4"]]
    return ", ".join(
        f"{t.name} ({t.machine_type} {t.topology or t.accelerator_count})" for t in shown
    )


def _unsupported(spec: Spec) -> Iterator[Finding]:
    for name, _, pools in jobs(spec):
        if any(pool["machine_spec"]["machine_type"].startswith("ct6e") for pool in pools):
            yield Finding(
                where=f"component {name}",
                what=f"TensorFlow does not support {Generation.V6E} by default",
                cure="Use v5e.",
            )


def _tensorboard(spec: Spec) -> Iterator[Finding]:
    for name, component, _ in jobs(spec):
        values = {field: d.get("defaultValue") for field, d in _inputs(component).items()}
        if values.get("tensorboard") and not values.get("service_account"):
            yield Finding(
                where=f"component {name}",
                what="TensorBoard demands a service account",
                cure="Give one: --service-account.",
            )


def _project_and_location(spec: Spec) -> Iterator[Finding]:
    names = {f"comp-{name}" for name, _, _ in jobs(spec)}
    for name, task in _tasks(spec):
        given = task.get("inputs", {}).get("parameters", {})
        if task["componentRef"]["name"] in names and not {"project", "location"} <= set(given):
            yield Finding(
                where=f"task {name}",
                what="a custom job without its project and location relies on placeholders",
                cure="Pass both to the task.",
            )


_MUTABLE = "a tag can come to mean another image, and cached results would not know"


def _mutable_images(spec: Spec) -> Iterator[Finding]:
    found = {container["image"]: name for name, _, container in _components(spec)}
    for name, _, pools in jobs(spec):
        found |= {pool["container_spec"]["image_uri"]: name for pool in pools}
    for image, name in sorted(found.items()):
        # Google's launcher is named by its version in the component that the library makes.
        if "@" in image and not re.search(r"@sha256:[0-9a-f]{64}$", image):
            yield Finding(
                where=f"component {name}, image {image}",
                what="what stands behind @ is no digest",
                cure="A digest is sha256: and 64 digits from 0 to 9 and a to f.",
            )
        elif "@" not in image and "ml-pipeline/google-cloud" not in image:
            yield Finding(
                where=f"component {name}, image {image}",
                what=_MUTABLE,
                cure="Name it by its digest: --images FILE.",
            )


def _cached_training(spec: Spec) -> Iterator[Finding]:
    names = {f"comp-{name}" for name, _, _ in jobs(spec)}
    for name, task in _tasks(spec):
        if task["componentRef"]["name"] in names and task.get("cachingOptions", {}).get(
            "enableCache"
        ):
            yield Finding(
                where=f"task {name}",
                what="a cached custom job hands on an old model",
                cure="Switch caching off for it.",
            )


def _long_arguments(spec: Spec) -> Iterator[Finding]:
    constants = [
        (f"task {name}, argument {key}", value.get("runtimeValue", {}).get("constant"))
        for name, task in _tasks(spec)
        for key, value in task.get("inputs", {}).get("parameters", {}).items()
    ]
    defaults = [
        (f"parameter {key}", value.get("defaultValue"))
        for key, value in _inputs(spec["root"]).items()
    ]
    for where, value in (*constants, *defaults):
        if value is not None and len(json.dumps(value)) > _MAX_ARGUMENT_CHARACTERS:
            yield Finding(
                where=where,
                what=f"is longer than {_MAX_ARGUMENT_CHARACTERS:,} characters and will be refused",
                cure="Write it to a file and pass the file's uri.",
            )


def _schema_titles(spec: Spec) -> Iterator[Finding]:
    for name, component in spec["components"].items():
        for side in ("inputDefinitions", "outputDefinitions"):
            for key, entry in component.get(side, {}).get("artifacts", {}).items():
                title = entry["artifactType"].get("schemaTitle", "")
                if not title.startswith(("system.", "google.")):
                    yield Finding(
                        where=f"component {name.removeprefix('comp-')}, artifact {key}",
                        what=f"the schema title {title!r} is unknown to the backend",
                        cure="Use a system.* title and put the type into the metadata.",
                    )


CHECKS: Sequence[Callable[[Spec], Iterator[Finding]]] = (
    _executor_input,
    _overridden_fields,
    _raw_placeholders,
    _launcher_settings,
    _worker_pools,
    _machines,
    _unsupported,
    _tensorboard,
    _project_and_location,
    _mutable_images,
    _cached_training,
    _long_arguments,
    _schema_titles,
)
