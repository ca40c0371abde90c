"""The last word of a pipeline's run, whatever its end: what was made, how good it is.

    clozeflow-component summary '{{$}}'

It reads the manifests that stand beside its own output, in the folders of the run's other tasks,
and follows them to artifacts that were taken from earlier runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clozeflow import artifacts, storage
from clozeflow.artifacts import Artifact, ArtifactType
from clozeflow.report import Report

TITLE = "Summary of a run"


def run_summary(*, status: Mapping[str, Any], output: str) -> str:
    """The page: how the run ended, its artifacts, its figures.

    Args:
        status: KFP's final status of the tasks: `state`, and `error` with a `message`.
        output: The location of the page: `RUN/TASK/OUTPUT`, where other tasks have theirs.
    """
    report = Report(TITLE)
    message = status.get("error", {}).get("message", "")
    report.text(f"The run ended as {status.get('state', 'unknown')}. {message}".strip())
    found = find_artifacts(_parent(_parent(output)))
    if not found:
        return report.text("No task finished an artifact.").to_html()
    report.heading("Artifacts").table(
        ("type", "made by", "fingerprint", "where"),
        [(a.manifest.type, a.manifest.stage, a.manifest.fingerprint, a.uri) for a in found],
    )
    _add_publication(report, found)
    for artifact in found:
        manifest = artifact.manifest
        report.heading(f"{manifest.stage}: settings and figures")
        report.table(("setting", "value"), [(k, str(v)) for k, v in manifest.config.items()])
        figures = {**manifest.metrics, **manifest.parameters}
        if figures:
            report.table(("figure", "value"), list(figures.items()))
    return report.to_html()


def _add_publication(report: Report, found: Sequence[Artifact]) -> None:
    """Where the model was published to, or why it was not."""
    by_type = {artifact.manifest.type: artifact.manifest for artifact in found}
    if published := by_type.get(ArtifactType.PUBLICATION):
        report.heading("Published").text(published.properties["published_to"])
    elif evaluated := by_type.get(ArtifactType.EVALUATION):
        blessed = "blessed, and" if evaluated.parameters["blessed"] else "not blessed, and so"
        report.heading("Not published")
        report.text(f"The model was {blessed} not published. {evaluated.properties['verdict']}")


def find_artifacts(run: str) -> list[Artifact]:
    """The artifacts in the folders of a run's tasks, each after what it was made of."""
    found: dict[str, Artifact] = {}
    for location in storage.glob(storage.join(run, "*", "*", artifacts.MANIFEST)):
        _visit(_parent(location), found)
    return list(found.values())


def _visit(uri: str, found: dict[str, Artifact]) -> None:
    if not artifacts.is_finished(uri):
        return
    manifest = artifacts.read_manifest(uri)
    if manifest.fingerprint in found:
        return
    for ref in manifest.inputs:
        if ref.type in set(artifacts.ArtifactType):
            _visit(ref.uri, found)
    found[manifest.fingerprint] = Artifact(uri=uri, manifest=manifest)


def _parent(location: str) -> str:
    return location.rpartition("/")[0]
