"""Where an artifact came from: the way back to its sources, from manifests alone.

Each manifest names its inputs by fingerprint, so that no server and no database is needed. Where
the artifact stands in the folder of a run, the run's records add what a manifest does not know:
the image, the times.
"""

import dataclasses
import enum
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from clozeflow import artifacts, storage
from clozeflow.artifacts import ArtifactType, InputRef, Manifest
from clozeflow.errors import UserError
from pipelines.records import LATEST, RUN_FILE, read_tasks


class State(enum.StrEnum):
    """What is known of a node."""

    FOUND = "found"
    SOURCE = "source"
    """Data from outside clozeflow, as the corpus stage saw it."""
    GONE = "gone"
    """Only what the artifact made of it says: it is no longer where it was."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Edge:
    """That a node was made of another, under a name."""

    name: str
    fingerprint: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Node:
    """An artifact or a source."""

    fingerprint: str
    type: str
    uri: str
    state: State
    stage: str = ""
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Counts and properties of the artifact."""
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    made_by: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Code version, time, and what a run's record adds: image, start, end."""
    inputs: tuple[Edge, ...] = ()

    @property
    def title(self) -> str:
        """The type without its prefix, and the fingerprint's beginning."""
        return f"{self.type.removeprefix('clozeflow.')} {short(self.fingerprint)}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Graph:
    """Nodes by fingerprint, and the ones that were asked for."""

    roots: tuple[str, ...]
    nodes: Mapping[str, Node]


def short(fingerprint: str) -> str:
    """A fingerprint's beginning: enough for people."""
    return fingerprint.removeprefix("sha256:")[:12]


def trace(path: str) -> Graph:
    """The graph behind an artifact's folder, a run's folder, or a folder of runs (its last run).

    Raises:
        UserError: There is no artifact.
    """
    if not storage.is_remote(path) and not artifacts.is_finished(path):
        return _trace_run(_run_folder(Path(path)))
    known = _Known.around(path)
    nodes: dict[str, Node] = {}
    root = artifacts.read_manifest(path)
    _visit(root, path, known, nodes)
    return Graph(roots=(root.fingerprint,), nodes=nodes)


def _trace_run(run: Path) -> Graph:
    known, nodes = _Known.of_run(run), dict[str, Node]()
    for folder in known.folders.values():
        _visit(artifacts.read_manifest(folder), folder, known, nodes)
    used = {edge.fingerprint for node in nodes.values() for edge in node.inputs}
    roots = tuple(f for f in known.folders if f not in used)
    if not roots:
        raise UserError(run, "holds no finished artifact", fix="Let the run finish first.")
    return below(Graph(roots=roots, nodes=nodes))


def below(graph: Graph) -> Graph:
    """The part of a graph that its roots were made of, in the order of a walk from them."""
    found: dict[str, Node] = {}

    def visit(fingerprint: str) -> None:
        if fingerprint not in found:
            found[fingerprint] = graph.nodes[fingerprint]
            for edge in graph.nodes[fingerprint].inputs:
                visit(edge.fingerprint)

    for root in graph.roots:
        visit(root)
    return Graph(roots=graph.roots, nodes=found)


def _run_folder(path: Path) -> Path:
    for folder in (path, path / LATEST):
        if (folder / RUN_FILE).is_file():
            return folder.resolve()
    raise UserError(
        path,
        "is neither an artifact nor a run",
        expected=f"a folder with {artifacts.MANIFEST} or {RUN_FILE}",
        fix="Give the folder of an artifact, of a run, or the --output of runs.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Known:
    """What a run's folder adds to manifests: where its artifacts are now, and its records."""

    folders: Mapping[str, str] = dataclasses.field(default_factory=dict)
    records: Mapping[str, dict[str, Any]] = dataclasses.field(default_factory=dict)

    @classmethod
    def around(cls, artifact: str) -> "_Known":
        """What is known where the artifact stands in a run's folder; else nothing."""
        if storage.is_remote(artifact):
            return cls()
        parents = Path(artifact).resolve().parents
        run = next((parent for parent in parents if (parent / RUN_FILE).is_file()), None)
        return cls.of_run(run) if run else cls()

    @classmethod
    def of_run(cls, run: Path) -> "_Known":
        """The artifacts and records of a run."""
        manifests = sorted(run.glob(f"*/*/{artifacts.MANIFEST}"))
        folders = {json.loads(m.read_text())["fingerprint"]: str(m.parent) for m in manifests}
        records = {f: task for task in read_tasks(run) for f in _fingerprints(task)}
        return cls(folders=folders, records=records)


def _fingerprints(task: Mapping[str, Any]) -> Iterator[str]:
    for entry in task.get("executor_output", {}).get("artifacts", {}).values():
        for artifact in entry["artifacts"]:
            if fingerprint := artifact.get("metadata", {}).get("fingerprint"):
                yield fingerprint


def _visit(manifest: Manifest, uri: str, known: _Known, nodes: dict[str, Node]) -> None:
    if manifest.fingerprint in nodes:
        return
    nodes[manifest.fingerprint] = _node(manifest, uri, known)
    for ref in manifest.inputs:
        folder = _find(ref, known)
        if folder is None:
            nodes.setdefault(ref.fingerprint, _leaf(ref))
        else:
            _visit(artifacts.read_manifest(folder), folder, known, nodes)


def _find(ref: InputRef, known: _Known) -> str | None:
    """The folder that holds an input now: where it was, or beside the artifact made of it."""
    if ref.type not in set(ArtifactType):
        return None
    places = (ref.uri, known.folders.get(ref.fingerprint, ""))
    return next((folder for folder in places if _holds(folder, ref.fingerprint)), None)


def _holds(folder: str, fingerprint: str) -> bool:
    if not folder or not artifacts.is_finished(folder):
        return False
    return artifacts.read_manifest(folder).fingerprint == fingerprint


def _leaf(ref: InputRef) -> Node:
    is_artifact = ref.type in set(ArtifactType)
    return Node(
        fingerprint=ref.fingerprint,
        type=ref.type,
        uri=ref.uri,
        state=State.GONE if is_artifact else State.SOURCE,
    )


def _node(manifest: Manifest, uri: str, known: _Known) -> Node:
    counts = {
        f"{split}_{name}": value
        for split, content in manifest.splits.items()
        for name, value in content.counts.items()
    }
    record = known.records.get(manifest.fingerprint, {})
    return Node(
        fingerprint=manifest.fingerprint,
        type=manifest.type,
        uri=uri,
        state=State.FOUND,
        stage=manifest.stage,
        settings=manifest.config,
        facts={**counts, **manifest.properties},
        metrics=manifest.metrics,
        made_by=maker(manifest.clozeflow, manifest.code, manifest.created, record),
        inputs=tuple(Edge(name=i.name, fingerprint=i.fingerprint) for i in manifest.inputs),
    )


def maker(clozeflow: str, code: str, created: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """What made an artifact: code version and time, and what is known of the task."""
    return {
        "clozeflow": clozeflow,
        "code": short(code),
        "created": created,
        **{key: task[key] for key in ("image", "started", "ended") if task.get(key)},
    }


def downstream(path: str, within: Path | None = None) -> Graph:
    """What was made of an artifact: the graph with its edges turned round.

    Args:
        path: The artifact's folder.
        within: The folder of runs to look in; by default the one that the artifact's run is in.

    Raises:
        UserError: There is no artifact, or no run around it and no folder given.
    """
    root = artifacts.read_manifest(path).fingerprint
    runs = within or _runs_around(path)
    nodes: dict[str, Node] = {}
    for run in sorted(place.parent for place in runs.glob(f"*/{RUN_FILE}")):
        known = _Known.of_run(run)
        for folder in known.folders.values():
            _visit(artifacts.read_manifest(folder), folder, known, nodes)
    return turned(Graph(roots=(root,), nodes=nodes))


def _runs_around(path: str) -> Path:
    parents = [] if storage.is_remote(path) else Path(path).resolve().parents
    run = next((parent for parent in parents if (parent / RUN_FILE).is_file()), None)
    if run is None:
        raise UserError(path, "stands in no run's folder", fix="Give --within FOLDER-OF-RUNS.")
    return run.parent


def turned(graph: Graph) -> Graph:
    """The part of a graph that was made of its roots, with edges from an artifact to its uses."""
    uses: dict[str, list[Edge]] = {}
    for node in graph.nodes.values():
        for edge in node.inputs:
            uses.setdefault(edge.fingerprint, []).append(
                Edge(name=f"used as {edge.name}", fingerprint=node.fingerprint)
            )
    found, todo = dict[str, Node](), list(graph.roots)
    while todo:
        fingerprint = todo.pop()
        edges = tuple(uses.get(fingerprint, ()))
        found[fingerprint] = dataclasses.replace(graph.nodes[fingerprint], inputs=edges)
        todo += [edge.fingerprint for edge in edges if edge.fingerprint not in found]
    return Graph(roots=graph.roots, nodes=found)
