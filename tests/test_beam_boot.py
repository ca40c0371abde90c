"""The program that starts workers in a container, with Beam's own runner on the other side."""

import functools
import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("apache_beam", reason="the extra `beam` is not installed")
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_provision_api_pb2, beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.transforms.environments import DockerEnvironment

from clozeflow import beam_boot

DOCKER = """#!/bin/sh
# What Beam's runner asks of docker, done by processes of this machine.
echo "$@" >> "{folder}/calls"
case "$1" in
  pull) exit 1 ;;
  run)
    while [ "$1" != the-image ]; do shift; done
    shift
    "{python}" -m clozeflow.beam_boot "$@" --semi_persist_dir "{folder}/worker" \
      > "{folder}/log" 2>&1 < /dev/null &
    echo $! ;;
  inspect) if kill -0 "$4" 2> /dev/null; then echo running; else echo exited; fi ;;
  container) cat "{folder}/log" ;;
  kill) kill "$2" ;;
esac
"""


def note_process(folder: str, number: int) -> None:
    Path(folder, f"{number}-{os.getpid()}").touch()


@pytest.fixture
def docker(tmp_path, monkeypatch) -> Path:
    """A folder with a stand-in for docker, which is found before any other."""
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(DOCKER.format(folder=tmp_path, python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return tmp_path


def test_a_runner_gets_its_work_done_in_the_container(docker):
    options = PipelineOptions(["--job_name=ours"])
    encoded = JobServiceHandle.encode_pipeline_options(options.get_all_options(drop_default=True))
    info = beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded)
    runner = fn_runner.FnApiRunner(
        default_environment=DockerEnvironment(container_image="the-image"),
        provision_info=fn_runner.ExtendedProvisionInfo(info),
    )
    (docker / "seen").mkdir()
    with beam.Pipeline(runner=runner, options=options) as pipeline:
        numbers = pipeline | beam.Create([1, 2, 3])
        _ = numbers | beam.Map(functools.partial(note_process, str(docker / "seen")))
    found = dict(path.name.split("-") for path in (docker / "seen").iterdir())
    assert sorted(found) == ["1", "2", "3"]
    assert str(os.getpid()) not in found.values()
    assert '"ours"' in (docker / "worker" / "pipeline_options.json").read_text()


def test_what_a_job_brings_along_is_named_and_not_installed():
    def staged(name):
        role = beam_runner_api_pb2.ArtifactStagingToRolePayload(staged_name=name)
        return beam_runner_api_pb2.ArtifactInformation(role_payload=role.SerializeToString())

    names = ["submission_environment_dependencies.txt", "requirements.txt", "theirs.whl"]
    info = beam_provision_api_pb2.ProvisionInfo(dependencies=map(staged, names))
    assert beam_boot._staged(info) == ["requirements.txt", "theirs.whl"]


def test_siblings_are_started_too():
    info = beam_provision_api_pb2.ProvisionInfo(sibling_worker_ids=["1-1", "1-2"])
    assert beam_boot._names("1-1", info) == ["1-1", "1-2"]


def test_services_are_where_the_runner_says_they_are(tmp_path):
    given = beam_boot._parser().parse_args(
        [
            *("--id=1", "--provision_endpoint=p:1", "--control_endpoint=c:1"),
            *("--logging_endpoint=l:1", f"--semi_persist_dir={tmp_path}"),
        ]
    )
    info = beam_provision_api_pb2.ProvisionInfo()
    info.control_endpoint.url = "told:2"
    environment = beam_boot.worker_environment(given, info)
    assert environment["CONTROL_API_SERVICE_DESCRIPTOR"] == 'url: "told:2"\n'
    assert environment["LOGGING_API_SERVICE_DESCRIPTOR"] == 'url: "l:1"\n'
    assert "STATUS_API_SERVICE_DESCRIPTOR" not in environment
    info.status_endpoint.url = "status:3"
    environment = beam_boot.worker_environment(given, info)
    assert environment["STATUS_API_SERVICE_DESCRIPTOR"] == 'url: "status:3"\n'
