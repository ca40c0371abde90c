"""The container's entry point: KFP's executor input in, a stage's run, its executor output out.

    clozeflow-component STAGE '{{$}}'

No kfp is needed here. The executor input names each artifact's location and every parameter;
the executor output carries each artifact's metadata, which Vertex ML Metadata shows and searches.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
from collections.abc import Mapping
from typing import Any

from clozeflow import storage
from clozeflow.artifacts import Manifest
from clozeflow.cache import StageCache
from clozeflow.errors import INTERRUPTED, UserError
from clozeflow.registry import STAGES, Stage
from clozeflow.run_summary import run_summary
from clozeflow.stages import CLASSIFICATION, REPORT, SHORT_REPORT, run_stage

CUSTOM_JOB_FIELDS = frozenset(
    {
        "base_output_directory",
        "display_name",
        "enable_web_access",
        "encryption_spec_key_name",
        "labels",
        "location",
        "max_wait_duration",
        "network",
        "persistent_resource_id",
        "project",
        "psc_interface_config",
        "reserved_ip_ranges",
        "restart_job_on_worker_restart",
        "service_account",
        "strategy",
        "tensorboard",
        "timeout",
        "worker_pool_specs",
    }
)
"""Inputs that a component gets when it is wrapped as a custom job of Vertex AI: they describe the
job, and stand in the executor input beside the stage's settings."""

SUMMARY = "summary"
"""The component that is no stage: it sums up a run when its other tasks have ended."""


def main() -> None:
    """Runs the stage named by the first argument on the executor input in the second."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        name, executor_input = _parse(sys.argv[1:])
        if name == SUMMARY:
            write_summary(executor_input)
        else:
            run_component(STAGES[name], executor_input)
    except UserError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def run_component(stage: Stage, executor_input: Mapping[str, Any]) -> Manifest:
    """Runs a stage as KFP asks for it and writes the executor output file."""
    given, wanted = executor_input.get("inputs", {}), executor_input["outputs"]
    config = stage.config.from_mapping(
        {k: v for k, v in given.get("parameterValues", {}).items() if k not in CUSTOM_JOB_FIELDS}
    )
    artifacts = given.get("artifacts", {})
    connected = [*stage.inputs, *(name for name in stage.optional_inputs if artifacts.get(name))]
    inputs = {name: _location(_first(artifacts, name)["uri"]) for name in connected}
    main_output = _first(wanted["artifacts"], stage.output_name)
    output = _location(main_output["uri"])
    manifest = run_stage(
        stage, config, inputs=inputs, output=output, cache=StageCache.from_environment()
    )
    storage.write_text(
        _location(wanted["outputFile"]),
        json.dumps(_executor_output(stage, manifest, wanted, output)),
    )
    return manifest


def write_summary(executor_input: Mapping[str, Any]) -> None:
    """Sums up the run whose final status the executor input holds."""
    wanted = executor_input["outputs"]
    artifact = _first(wanted["artifacts"], SUMMARY)
    status = executor_input["inputs"]["parameterValues"]["status"]
    location = _location(artifact["uri"])
    storage.write_text(location, run_summary(status=status, output=location))
    echo = {key: artifact[key] for key in ("name", "uri") if key in artifact}
    entry = {SUMMARY: {"artifacts": [{**echo, "metadata": {"state": status.get("state", "")}}]}}
    storage.write_text(_location(wanted["outputFile"]), json.dumps({"artifacts": entry}))


def _parse(arguments: list[str]) -> tuple[str, Mapping[str, Any]]:
    usage = "Call it as: clozeflow-component STAGE '{{$}}'"
    if len(arguments) != 2:
        raise UserError(
            "clozeflow-component", "wants two arguments", got=len(arguments), fix=usage + "."
        )
    name, text = arguments
    names = (*STAGES, SUMMARY)
    if name not in names:
        raise UserError(
            "clozeflow-component", "no such stage", got=name, expected=", ".join(names), fix=usage
        )
    try:
        value = json.loads(text)
        _check_shape(value)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UserError("executor input", f"is not KFP's: {error!r}", fix=usage + ".") from None
    return name, value


def _check_shape(value: Any) -> None:
    """Raises an error of Python's own where the executor input lacks what is read of it."""
    given, wanted = value.get("inputs", {}), value["outputs"]
    given.get("parameterValues", {}).items()
    if not isinstance(wanted["outputFile"], str):
        raise TypeError("outputFile is no text")
    wanted.get("parameters", {}).items()
    for artifacts in (given.get("artifacts", {}), wanted["artifacts"]):
        for name, found in artifacts.items():
            if any(not isinstance(one["uri"], str) for one in found["artifacts"]):
                raise TypeError(f"the uri of {name} is no text")


def _first(artifacts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    try:
        return artifacts[name]["artifacts"][0]
    except (LookupError, TypeError):
        raise UserError(
            "executor input",
            f"names no artifact {name!r}",
            fix=f"Connect {name!r} in the pipeline.",
        ) from None


def _location(uri: str) -> str:
    """Objects behind Vertex's mount are read and written by their `gs://` names.

    A rename in the mount is a copy, and many small reads through it starve the reader.
    """
    return f"gs://{uri.removeprefix('/gcs/')}" if uri.startswith("/gcs/") else uri


def _executor_output(
    stage: Stage, manifest: Manifest, wanted: Mapping[str, Any], output: str
) -> dict[str, Any]:
    written = {}
    for name in wanted["artifacts"]:
        artifact = _first(wanted["artifacts"], name)
        metadata = _metadata(manifest)
        if name != stage.output_name:
            metadata = _fill_extra_output(artifact, manifest, output)
        echo = {key: artifact[key] for key in ("name", "uri") if key in artifact}
        written[name] = {"artifacts": [{**echo, "metadata": metadata}]}
    declared = wanted.get("parameters", {})
    values = {name: value for name, value in manifest.parameters.items() if name in declared}
    return {"artifacts": written, "parameterValues": values}


def _fill_extra_output(
    artifact: Mapping[str, Any], manifest: Manifest, output: str
) -> dict[str, Any]:
    """The metadata of KFP's own outputs: figures for both Metrics; HTML and Markdown are copied."""
    title = artifact.get("type", {}).get("schemaTitle", "")
    if title == "system.Metrics":
        return dict(manifest.metrics)
    if title == "system.ClassificationMetrics":
        return json.loads(storage.read_text(storage.join(output, CLASSIFICATION)))
    if name := {"system.HTML": REPORT, "system.Markdown": SHORT_REPORT}.get(title):
        report = storage.read_bytes(storage.join(output, name))
        storage.write_bytes(_location(artifact["uri"]), report)
    return {}


def _metadata(manifest: Manifest) -> dict[str, Any]:
    """What is known of an artifact, flat: numbers and strings, that a metadata store can search.

    Settings and inputs are JSON: lineage can be read from the store alone, with no file opened.
    """
    counts = {
        f"{split}_{name}": value
        for split, content in manifest.splits.items()
        for name, value in content.counts.items()
    }
    return {
        "type": manifest.type,
        "fingerprint": manifest.fingerprint,
        "stage": manifest.stage,
        "clozeflow": manifest.clozeflow,
        "code": manifest.code,
        "created": manifest.created,
        "settings": json.dumps(dict(manifest.config)),
        "inputs": json.dumps([dataclasses.asdict(ref) for ref in manifest.inputs]),
        "metric_names": json.dumps(list(manifest.metrics)),
        **counts,
        **manifest.properties,
        **manifest.metrics,
    }


if __name__ == "__main__":
    main()
