"""`python -m pipelines`: run a pipeline here or on Vertex AI; ask where an artifact came from."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from clozeflow.errors import INTERRUPTED, UserError
from pipelines.vertex_commands import add_commands, add_place, chosen_place

if TYPE_CHECKING:
    from pipelines.lineage import Graph


def main() -> None:
    """Runs the command asked for; a user's error is one message and exit code 2."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # lets `finally` end the tasks
    options = _parser().parse_args()
    try:
        options.command(options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted: the same command goes on where it stopped", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pipelines", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands)
    _add_lineage(commands)
    add_commands(commands)
    return parser


def _add_run(commands: argparse._SubParsersAction) -> None:
    run = commands.add_parser("run", help="run a pipeline on this machine")
    run.add_argument("pipeline", help="name of a pipeline, or a compiled YAML file")
    run.add_argument("--output", type=Path, required=True, help="folder that keeps the runs")
    run.add_argument("--preset", help="settings under a name, for example demo")
    run.add_argument(
        "--param",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the pipeline; several are given one after another",
    )
    run.add_argument(
        "--runner",
        choices=("environment", "docker"),
        default="environment",
        help="what runs the tasks: this Python environment, or each task's image (environment)",
    )
    run.add_argument(
        "--in-image",
        default="",
        metavar="COMMAND",
        help="run each task by a command of yours that runs others in the image {image}, for "
        "example 'podman run --rm --volume /data:/data {image}'",
    )
    run.set_defaults(command=_run)


def _add_lineage(commands: argparse._SubParsersAction) -> None:
    lineage = commands.add_parser("lineage", help="show what an artifact was made of")
    lineage.add_argument(
        "path", help="folder of an artifact or of a run; with --project, a job too"
    )
    lineage.add_argument("--html", type=Path, metavar="FILE", help="draw it as a web page too")
    lineage.add_argument("--downstream", action="store_true", help="what was made of it, instead")
    lineage.add_argument("--within", type=Path, help="folder of runs that --downstream looks in")
    lineage.add_argument("--diff", metavar="PATH", help="say what differs from another's history")
    add_place(lineage, required=False)
    lineage.set_defaults(command=_lineage)


def _run(options: argparse.Namespace) -> None:
    from pipelines.arguments import parse_arguments, spec_of
    from pipelines.catalog import find_pipeline, find_preset
    from pipelines.local import Runner, TaskFailed, run
    from pipelines.summary import summarize

    pipeline = find_pipeline(options.pipeline)
    preset = find_preset(options.pipeline, options.preset)
    arguments = {**preset, **parse_arguments(spec_of(pipeline), options.param)}
    try:
        folder = run(
            pipeline,
            arguments,
            output=options.output,
            runner=Runner(options.runner),
            in_image=options.in_image,
        )
    except TaskFailed as error:
        print(f"\nerror: {error}", file=sys.stderr)
        sys.exit(1)
    print(f"\n{summarize(folder)}")


def _lineage(options: argparse.Namespace) -> None:
    from pipelines.lineage_diff import differences
    from pipelines.lineage_view import to_html, to_tree

    graph = _trace(options, options.path)
    if options.diff:
        found = differences(graph, _trace(options, options.diff))
        lines = [f"{options.path} / {options.diff}", *map(str, found)]
        print("\n".join(lines) if found else "The two have the same history.")
        return
    print(to_tree(graph))
    if options.html:
        options.html.write_text(to_html(graph), encoding="utf-8")
        print(f"\nDrawn in {options.html}")


def _trace(options: argparse.Namespace, path: str) -> Graph:
    """The graph from manifests, or from Vertex ML Metadata where a project is given."""
    if options.project:
        from pipelines.lineage_vertex import downstream_vertex, trace_vertex

        ask = downstream_vertex if options.downstream else trace_vertex
        return ask(chosen_place(options), path)
    from pipelines.lineage import downstream, trace

    return downstream(path, options.within) if options.downstream else trace(path)


if __name__ == "__main__":
    main()
