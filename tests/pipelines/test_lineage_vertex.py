"""Lineage from a metadata store that holds what a run's executor outputs say."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from google.cloud import aiplatform_v1 as v1
from google.protobuf import struct_pb2
from kfp import dsl

from clozeflow.errors import UserError
from components import artifacts as kinds
from pipelines.arguments import spec_of
from pipelines.lineage import downstream, trace
from pipelines.lineage_vertex import downstream_vertex, trace_vertex
from pipelines.lineage_view import to_html, to_tree
from pipelines.local import run
from pipelines.records import read_tasks
from tests.pipelines.fake_vertex import Task

ROOT = Path(__file__).parents[2]
STORE = "projects/p/locations/us-central1/metadataStores/default"
JOB = "rows-20260101"

_STAGE = """
import json, sys
from clozeflow import component
from clozeflow.artifacts import ArtifactType
from tests.toy import toy_stage
name, call = sys.argv[1:]
kinds = {"corpus": ArtifactType.CORPUS} if name == "second" else {}
component.run_component(toy_stage(**kinds), json.loads(call))
"""


@dsl.container_component
def first(corpus: dsl.Output[kinds.Corpus], size: int = 3):
    """The toy's first stage."""
    return dsl.ContainerSpec(
        image="toy:1", command=["python3", "-c", _STAGE, "first"], args=["{{$}}"]
    )


@dsl.container_component
def second(corpus: dsl.Input[kinds.Corpus], shards: dsl.Output[kinds.Shards], size: int = 4):
    """The toy's second stage."""
    return dsl.ContainerSpec(
        image="toy:2", command=["python3", "-c", _STAGE, "second"], args=["{{$}}"]
    )


@dsl.pipeline(name="rows")
def rows(size: int = 5):
    """Two stages.

    Args:
        size: How many letters.
    """
    second(corpus=first(size=size).outputs["corpus"], size=size)


@pytest.fixture
def local_run(tmp_path, monkeypatch) -> Path:
    """A real run of two real stages, by the component's entry point, recorded as in its image."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    entering = "env IMAGE={image}"  # a program that runs another, as a container tool does
    return run(rows, {}, output=tmp_path / "runs", in_image=entering, screen=io.StringIO())


def fill(fake, folder):
    """Puts into the store what Vertex AI would have learned from the run's executor outputs."""
    fake.metadata["contexts"][f"{STORE}/contexts/{JOB}"] = {"name": f"{STORE}/contexts/{JOB}"}
    details = []
    for task in read_tasks(folder):
        name = f"{STORE}/executions/{task['task']}"
        fake.metadata["executions"][name] = {
            "name": name,
            "createTime": task["started"].replace("+00:00", "Z"),
            "updateTime": task["ended"].replace("+00:00", "Z"),
        }
        details.append(Task(task_name=task["task"], execution=v1.Execution(name=name)))
        for output in task["executor_output"]["artifacts"].values():
            (artifact,) = output["artifacts"]
            place = f"{STORE}/artifacts/{len(fake.metadata['artifacts'])}"
            fake.metadata["artifacts"][place] = {
                "name": place,
                "uri": artifact["uri"],
                "metadata": artifact["metadata"],
            }
            fake.events.append({"artifact": place, "execution": name, "type": "OUTPUT"})
    job = v1.PipelineJob(name=f"projects/p/locations/us-central1/pipelineJobs/{JOB}")
    job.pipeline_spec = struct_pb2.Struct()
    job.pipeline_spec.update(spec_of(rows))
    job.job_detail = v1.PipelineJobDetail(task_details=details)
    fake.jobs[job.name] = job


def test_a_jobs_lineage_equals_the_local_runs(fake, place, local_run):
    fill(fake, local_run)
    here, there = trace(str(local_run)), trace_vertex(place, JOB)
    assert there == here
    assert to_tree(there) == to_tree(here)
    assert to_html(there) == to_html(here)
    (root,) = here.roots
    assert here.nodes[root].made_by["image"] == "toy:2"
    assert here.nodes[root].settings == {"size": 5, "num_workers": 1}


def test_an_artifacts_lineage_is_found_by_its_uri(fake, place, local_run):
    fill(fake, local_run)
    uri = str(local_run / "second" / "shards")
    here, there = trace(uri), trace_vertex(place, uri)
    assert there.nodes.keys() == here.nodes.keys()


def test_downstream_is_the_same_too(fake, place, local_run):
    fill(fake, local_run)
    uri = str(local_run / "first" / "corpus")
    here, there = downstream(uri), downstream_vertex(place, uri)
    assert (there.roots, there.nodes.keys()) == (here.roots, here.nodes.keys())


def test_what_the_store_does_not_know_is_one_message(fake, place):
    with pytest.raises(UserError, match="unknown to the metadata store"):
        trace_vertex(place, "gs://bucket/model")
    with pytest.raises(UserError, match="no such job"):
        trace_vertex(place, "rows-1")


def test_the_command_line_asks_the_store(fake, place, local_run):
    fill(fake, local_run)
    command = ["lineage", JOB, "--project", "p", "--location", "us-central1"]
    result = subprocess.run(
        [sys.executable, "-m", "pipelines", *command, "--endpoint", fake.url],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.strip() == to_tree(trace(str(local_run)))
    assert json.loads((local_run / "run.json").read_text())["status"] == "succeeded"
