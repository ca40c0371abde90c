"""What a finished run is summed up as: its report, its figures, where everything is."""

from pathlib import Path
from typing import Any

from clozeflow.report import format_number
from pipelines.records import read_tasks

REPORT_FILE = "report.html"


def summarize(run: Path) -> str:
    """The lines that a run ends with, from its tasks' records alone."""
    tasks = read_tasks(run)
    sections = [
        ("Artifacts", [f"{name:<12} {uri}" for task in tasks for name, uri in _folders(task)]),
        ("Figures", [line for task in tasks for line in _figures(task)]),
        ("Reports", [path for task in tasks for path in _reports(task)]),
        ("Record", [str(run)]),
    ]
    return "\n".join(
        f"{title}\n" + "\n".join(f"  {line}" for line in lines)
        for title, lines in sections
        if lines
    )


def _outputs(task: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Name, schema title and runtime artifact of each output of a task."""
    wanted = task["executor_input"].get("outputs", {}).get("artifacts", {})
    written = task.get("executor_output", {}).get("artifacts", {})
    return [
        (name, wanted[name]["artifacts"][0]["type"]["schemaTitle"], entry["artifacts"][0])
        for name, entry in written.items()
        if name in wanted
    ]


def _folders(task: dict[str, Any]) -> list[tuple[str, str]]:
    shown_elsewhere = (
        *("system.Metrics", "system.ClassificationMetrics"),
        *("system.HTML", "system.Markdown"),
    )
    return [(n, a["uri"]) for n, title, a in _outputs(task) if title not in shown_elsewhere]


def _figures(task: dict[str, Any]) -> list[str]:
    figures = [
        f"{name}: {format_number(value) if isinstance(value, (int, float)) else value}"
        for _, title, artifact in _outputs(task)
        if title == "system.Metrics"
        for name, value in artifact.get("metadata", {}).items()
    ]
    values = task.get("executor_output", {}).get("parameterValues", {})
    return figures + [f"{name}: {str(value).lower()}" for name, value in values.items()]


def _reports(task: dict[str, Any]) -> list[str]:
    found = [Path(uri, REPORT_FILE) for _, uri in _folders(task)]
    return [str(path) for path in found if path.is_file()]
