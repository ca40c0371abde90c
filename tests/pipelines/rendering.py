"""A custom job as the backend makes it: placeholders put in, then parsed as the real message."""

import functools
import json
import re

from google.cloud import aiplatform_v1
from google.protobuf import json_format

from clozeflow.slices import find_slice
from pipelines.arguments import spec_of
from pipelines.tpu import vertex_variant

EXECUTOR_INPUT = {
    "inputs": {
        "parameterValues": {"num_train_steps": 5, "preset": 'ti"ny\\', "project": "p"},
        "artifacts": {"shards": {"artifacts": [{"name": "x", "uri": "gs://b/r/shards"}]}},
    },
    "outputs": {
        "outputFile": "/gcs/b/r/executor_output.json",
        "artifacts": {"model": {"artifacts": [{"name": "y", "uri": "gs://b/r/model"}]}},
    },
}


@functools.cache
def train_on(name):
    """The train component as a job on a slice, with default options."""
    return vertex_variant(find_slice(name)).train


_PARAMETER = re.compile(r"\{\{\$\.inputs\.parameters\['(\w+)'\]\}\}")
_EMPTY = {"STRUCT": {}, "LIST": [], "STRING": ""}


def payload(component, **parameters) -> dict:
    """The job's JSON; the placeholders that stand inside `worker_pool_specs` are put in last."""
    spec = spec_of(component)
    (definition,) = spec["components"].values()
    container = spec["deploymentSpec"]["executors"][definition["executorLabel"]]["container"]
    values = {
        name: entry.get("defaultValue", _EMPTY.get(entry["parameterType"]))
        for name, entry in definition["inputDefinitions"]["parameters"].items()
    }
    text = container["args"][container["args"].index("--payload") + 1]
    for _ in range(2):
        text = _PARAMETER.sub(lambda match: _text({**values, **parameters}[match[1]]), text)
    escaped = json.dumps(json.dumps(EXECUTOR_INPUT))[1:-1]
    return json.loads(text.replace("{{$.json_escape[1]}}", escaped))


def custom_job(component, **parameters) -> aiplatform_v1.CustomJob:
    """The message; a field that it does not have is an error."""
    job = aiplatform_v1.CustomJob()
    json_format.ParseDict(payload(component, **parameters), job._pb)
    return job


def _text(value) -> str:
    return value if isinstance(value, str) else json.dumps(_integers(value))


def _integers(value):
    """The backend prints whole numbers without a fraction."""
    if isinstance(value, float) and value == int(value):
        return int(value)
    if isinstance(value, list):
        return [_integers(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _integers(entry) for key, entry in value.items()}
    return value
