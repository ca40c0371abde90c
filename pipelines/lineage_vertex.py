"""The same lineage from Vertex ML Metadata, with no file opened.

The store holds what each task's executor output said of its artifacts (see `clozeflow.component`):
type, fingerprint, settings and inputs among it.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from google.cloud import aiplatform
from google.cloud import aiplatform_v1 as v1
from google.protobuf import json_format

from clozeflow.artifacts import ArtifactType
from clozeflow.errors import UserError
from pipelines.arguments import container_of
from pipelines.lineage import Edge, Graph, Node, State, below, maker, turned
from pipelines.vertex import Place, explained, find_job

_MAX_HOPS = 100
_OWN_KEYS = {
    "type",
    "fingerprint",
    "stage",
    "clozeflow",
    "code",
    "created",
    "settings",
    "inputs",
    "metric_names",
}


def trace_vertex(place: Place, name: str) -> Graph:
    """The graph behind an artifact (its uri) or a job (its id or resource name).

    Raises:
        UserError: The store knows neither, or what it knows was not made by clozeflow.
    """
    return below(_whole(place, name))


def downstream_vertex(place: Place, uri: str) -> Graph:
    """What was made of an artifact, as the store knows it."""
    return turned(_whole(place, uri))


def _whole(place: Place, name: str) -> Graph:
    """All that the store connects with the artifact or the job."""
    subgraph = _subgraph(place, name)
    tasks = _tasks(subgraph, {} if _is_uri(name) else _images(place, name))
    nodes: dict[str, Node] = {}
    leaves: dict[str, Node] = {}
    for artifact in subgraph.artifacts:
        metadata = _plain(json_format.MessageToDict(artifact._pb).get("metadata", {}))
        if "fingerprint" in metadata:
            node = _node(artifact.uri, metadata, tasks.get(artifact.name, {}))
            nodes[node.fingerprint] = node
            leaves |= {leaf.fingerprint: leaf for leaf in _leaves(metadata)}
    used = {edge.fingerprint for node in nodes.values() for edge in node.inputs}
    asked = [f for f, node in nodes.items() if node.uri == name]
    roots = asked or [f for f in nodes if f not in used]
    if not roots:
        raise UserError(
            name, "has no artifact of clozeflow", fix="Give a job or an artifact's uri."
        )
    return Graph(roots=tuple(roots), nodes={**leaves, **nodes})


def _subgraph(place: Place, name: str) -> v1.LineageSubgraph:
    place.connect()
    with explained(name):
        if not _is_uri(name):
            context: Any = aiplatform.Context.get(find_job(place, name).name)
            return context.query_lineage_subgraph()
        artifacts = aiplatform.Artifact.list(filter=f'uri="{name}"')
        if not artifacts:
            raise UserError(
                name, "is unknown to the metadata store", fix="Check project, location and uri."
            )
        return artifacts[0].api_client.query_artifact_lineage_subgraph(
            request=v1.QueryArtifactLineageSubgraphRequest(
                artifact=artifacts[0].resource_name, max_hops=_MAX_HOPS
            )
        )


def _is_uri(name: str) -> bool:
    return "://" in name or name.startswith("/")


def _tasks(subgraph: v1.LineageSubgraph, images: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Of each artifact, by its resource name: start, end and image of the task that wrote it."""
    executions = {execution.name: execution for execution in subgraph.executions}
    found = {}
    for event in subgraph.events:
        if event.type_ == v1.Event.Type.OUTPUT and event.execution in executions:
            execution = executions[event.execution]
            found[event.artifact] = {
                "image": images.get(event.execution, ""),
                "started": execution.create_time.isoformat(timespec="milliseconds"),
                "ended": execution.update_time.isoformat(timespec="milliseconds"),
            }
    return found


def _images(place: Place, name: str) -> dict[str, str]:
    """The image of each of a job's executions, by resource name, from the job's own pipeline."""
    job = find_job(place, name).gca_resource
    spec = json_format.MessageToDict(job._pb)["pipelineSpec"]
    components = {
        task: spec["components"][definition["componentRef"]["name"]]
        for graph in (spec["root"], *spec["components"].values())
        for task, definition in graph.get("dag", {}).get("tasks", {}).items()
    }
    return {
        detail.execution.name: container_of(spec, components[detail.task_name]).get("image", "")
        for detail in job.job_detail.task_details
        if "executorLabel" in components.get(detail.task_name, {})
    }


def _node(uri: str, metadata: Mapping[str, Any], task: Mapping[str, Any]) -> Node:
    names = json.loads(metadata["metric_names"])
    facts = {k: v for k, v in metadata.items() if k not in _OWN_KEYS and k not in names}
    return Node(
        fingerprint=metadata["fingerprint"],
        type=metadata["type"],
        uri=uri,
        state=State.FOUND,
        stage=metadata["stage"],
        settings=json.loads(metadata["settings"]),
        facts=facts,
        metrics={name: metadata[name] for name in names},
        made_by=maker(metadata["clozeflow"], metadata["code"], metadata["created"], task),
        inputs=tuple(
            Edge(name=ref["name"], fingerprint=ref["fingerprint"])
            for ref in json.loads(metadata["inputs"])
        ),
    )


def _leaves(metadata: Mapping[str, Any]) -> Iterator[Node]:
    """Inputs as their user saw them: sources, and artifacts that the store does not hold."""
    for ref in json.loads(metadata["inputs"]):
        is_artifact = ref["type"] in set(ArtifactType)
        yield Node(
            fingerprint=ref["fingerprint"],
            type=ref["type"],
            uri=ref["uri"],
            state=State.GONE if is_artifact else State.SOURCE,
        )


def _plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The store has one type of number: whole ones come back as 8192.0."""
    return {
        key: int(value) if isinstance(value, float) and value == int(value) else value
        for key, value in metadata.items()
    }
