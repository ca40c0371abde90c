"""Starts Beam's workers in a container: what runs `/opt/apache/beam/boot` on Dataflow and its like.

    clozeflow-beam-boot --id ID --provision_endpoint HOST:PORT [--control_endpoint …] …

It does what Beam's own program of that name does for an image that has all it needs: asks the
runner for the pipeline's options, and starts the worker that comes with apache-beam, one process
for each name that the runner gives. It installs nothing that a job brings along, and says so.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
from apache_beam.portability.api import (
    beam_provision_api_pb2,
    beam_provision_api_pb2_grpc,
    beam_runner_api_pb2,
    endpoints_pb2,
)
from google.protobuf import json_format, text_format

logger = logging.getLogger(__name__)

_WORKER = "apache_beam.runners.worker.sdk_worker_main"
_LISTS_OF_VERSIONS = frozenset({"submission_environment_dependencies.txt"})
"""Staged with every job, for people to look at."""
_ANSWER_SECONDS = 120


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs workers until they end; returns 0 if all ended well."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    given = _parser().parse_args(arguments)
    info = provision_info(given.provision_endpoint, given.id)
    for name in _staged(info):
        logger.warning("%s is not installed: this image has all that the work needs", name)
    environment = worker_environment(given, info)
    return _run({name: {**environment, "WORKER_ID": name} for name in _names(given.id, info)})


def provision_info(endpoint: str, worker_id: str) -> Any:
    """What the runner says of the job: a `ProvisionInfo`."""
    with grpc.insecure_channel(endpoint) as channel:
        stub = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        answer = stub.GetProvisionInfo(
            beam_provision_api_pb2.GetProvisionInfoRequest(),
            metadata=[("worker_id", worker_id)],
            timeout=_ANSWER_SECONDS,
            wait_for_ready=True,
        )
    return answer.info


def worker_environment(given: argparse.Namespace, info: Any) -> dict[str, str]:
    """The variables that Beam's worker reads, but its name."""
    folder = Path(given.semi_persist_dir)
    folder.mkdir(parents=True, exist_ok=True)
    options = folder / "pipeline_options.json"  # a variable's length has a limit
    options.write_text(json.dumps(json_format.MessageToDict(info.pipeline_options)))
    environment = {
        "PIPELINE_OPTIONS_FILE": str(options),
        "SEMI_PERSISTENT_DIRECTORY": str(folder),
        "RUNNER_CAPABILITIES": " ".join(info.runner_capabilities),
        "LOGGING_API_SERVICE_DESCRIPTOR": _endpoint(info.logging_endpoint, given.logging_endpoint),
        "CONTROL_API_SERVICE_DESCRIPTOR": _endpoint(info.control_endpoint, given.control_endpoint),
    }
    if info.status_endpoint.url:
        environment["STATUS_API_SERVICE_DESCRIPTOR"] = _endpoint(info.status_endpoint, "")
    return environment


def _parser() -> argparse.ArgumentParser:
    """The flags of Beam's container contract."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--id", required=True, help="the worker's name")
    parser.add_argument("--provision_endpoint", required=True, help="who knows the job")
    parser.add_argument("--control_endpoint", default="", help="who gives work")
    parser.add_argument("--logging_endpoint", default="", help="who takes what is logged")
    parser.add_argument("--artifact_endpoint", default="", help="not used: nothing is fetched")
    parser.add_argument("--semi_persist_dir", default="/tmp", help="a folder for the workers")
    return parser


def _endpoint(told: Any, given: str) -> str:
    """A service's address as the worker reads it: what the runner tells, else what was given."""
    return text_format.MessageToString(
        told if told.url else endpoints_pb2.ApiServiceDescriptor(url=given)
    )


def _names(worker_id: str, info: Any) -> list[str]:
    return [worker_id, *(name for name in info.sibling_worker_ids if name != worker_id)]


def _staged(info: Any) -> list[str]:
    """The names of files that the job brings along and that stay where they are."""
    names = []
    for dependency in info.dependencies:
        role = beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(dependency.role_payload)
        names.append(role.staged_name or dependency.role_urn)
    return [name for name in names if name not in _LISTS_OF_VERSIONS]


def _run(environments: Mapping[str, Mapping[str, str]]) -> int:
    """Starts the workers and waits; when one fails, or this program is to end, all end."""
    workers = [
        subprocess.Popen([sys.executable, "-m", _WORKER], env={**os.environ, **environment})
        for environment in environments.values()
    ]

    def end_all(*_: object) -> None:
        for worker in workers:
            worker.terminate()

    signal.signal(signal.SIGTERM, end_all)
    for worker in workers:
        if worker.wait():
            end_all()
    return int(any(worker.wait() for worker in workers))


if __name__ == "__main__":
    sys.exit(main())
