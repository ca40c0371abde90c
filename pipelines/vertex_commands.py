"""The commands that speak with Vertex AI: submit, schedule, status, cancel, download."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from clozeflow.errors import UserError

if TYPE_CHECKING:
    from google.cloud.aiplatform import PipelineJob

    from pipelines.request import Request
    from pipelines.vertex import Place


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the commands to a parser."""
    submit = commands.add_parser("submit", help="run a pipeline on Vertex AI")
    _add_request(submit)
    submit.add_argument("--usd-per-chip-hour", type=float, default=0, help="price of a TPU chip")
    submit.add_argument("--hours", type=float, default=0, help="expected time of training")
    submit.add_argument("--yes", action="store_true", help="send without asking")
    submit.add_argument("--no-wait", action="store_true", help="do not follow the job to its end")
    submit.set_defaults(command=_submit)

    schedule = commands.add_parser("schedule", help="run a pipeline on Vertex AI again and again")
    _add_request(schedule)
    schedule.add_argument("--cron", required=True, help="when, as 'TZ=Europe/Zurich 0 3 * * 1'")
    schedule.add_argument("--max-runs", type=int, default=0, help="runs until it ends; 0: never")
    schedule.set_defaults(command=_schedule)

    for name, function, text in (
        ("status", _status, "show a job's tasks, or the last jobs"),
        ("cancel", _cancel, "stop a job"),
        ("download", _download, "copy a job's artifacts to this machine"),
    ):
        parser = commands.add_parser(name, help=text)
        parser.add_argument("job", nargs="?" if name == "status" else None, help="id of the job")
        add_place(parser)
        if name == "download":
            parser.add_argument("--output", type=Path, required=True, help="folder to copy to")
        parser.set_defaults(command=function)


def add_place(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """The flags that say which project and region."""
    parser.add_argument("--project", required=required, help="Google Cloud project")
    parser.add_argument("--location", required=required, help="region, for example us-west1")
    parser.add_argument("--endpoint", default="", help=argparse.SUPPRESS)


def chosen_place(options: argparse.Namespace) -> Place:
    """The place that a command line names."""
    from google.auth.credentials import AnonymousCredentials

    from pipelines.vertex import Place

    return Place(
        project=options.project,
        location=options.location,
        endpoint=options.endpoint,
        # A service of one's own, on this machine, knows no accounts of Google's.
        credentials=AnonymousCredentials() if options.endpoint else None,
    )


def _add_request(parser: argparse.ArgumentParser) -> None:
    from pipelines import compilation

    parser.add_argument("pipeline", help="name of a pipeline, or a compiled YAML file")
    add_place(parser)
    parser.add_argument("--pipeline-root", required=True, help="gs://… folder for artifacts")
    parser.add_argument("--preset", help="settings under a name")
    parser.add_argument(
        "--param", action="extend", nargs="+", default=[], metavar="NAME=VALUE", help="a parameter"
    )
    compilation.add_image_options(parser)
    compilation.add_job_options(parser)
    parser.set_defaults(target=compilation.Target.VERTEX)


def _check_early(options: argparse.Namespace) -> None:
    """What can be said before anything is compiled."""
    from pipelines import compilation
    from pipelines.arguments import bucket_of
    from pipelines.catalog import PIPELINES, find_pipeline, find_preset

    bucket_of(options.pipeline_root)
    compilation.chosen_labels(options)
    compilation.chosen_images(options)
    find_preset(options.pipeline, options.preset)
    if options.pipeline in PIPELINES:
        compilation.check_options(options)
    else:
        find_pipeline(options.pipeline)


def _request(options: argparse.Namespace) -> Request:
    """The request of a command line: compiled, or read from a file, and checked."""
    import yaml

    from pipelines import compilation
    from pipelines.arguments import parse_arguments
    from pipelines.catalog import PIPELINES, find_pipeline, find_preset
    from pipelines.compiled import compiled
    from pipelines.request import Request, completed

    if options.pipeline in PIPELINES:
        made = find_pipeline(options.pipeline, compilation.chosen_variant(options))
        text = compiled(made, compilation.chosen_images(options))
    else:
        text = Path(options.pipeline).read_text(encoding="utf-8")
    spec = next(iter(yaml.safe_load_all(text)))
    preset = find_preset(options.pipeline, options.preset)
    request = Request(
        text=text,
        arguments={**preset, **parse_arguments(spec, options.param)},
        pipeline_root=options.pipeline_root,
        service_account=options.service_account,
        network=options.network,
        labels=compilation.chosen_labels(options),
    )
    return completed(request, project=options.project, location=options.location)


def _submit(options: argparse.Namespace) -> None:
    _check_early(options)
    request = _request(options)
    # Not before: whoever adds --yes should not be told of a mistake only then.
    if not options.yes and not sys.stdin.isatty():
        raise UserError("submit", "asks before it sends", fix="Add --yes where nobody can answer.")
    from pipelines.cost import estimate, preflights
    from pipelines.vertex import check_bucket, follow, submit

    place = chosen_place(options)
    check_bucket(place, request.pipeline_root)
    price = options.usd_per_chip_hour
    for cost in estimate(request.spec, hours=options.hours, usd_per_chip_hour=price):
        say(f"Training may take {cost}.")
    for line in preflights(request.spec, request.arguments):
        say(line)
    if not options.yes and not _confirmed():
        sys.exit("Nothing was sent.")
    job = submit(place, request)
    say(f"Sent: {job.name}\n{job._dashboard_uri()}")
    if not options.no_wait:
        state = follow(job, sys.stdout)
        say(f"{job.name}: {_words(state.name)}")
        sys.exit(0 if state.name.endswith("SUCCEEDED") else 1)


def _confirmed() -> bool:
    return input("Send it? [y/N] ").strip().lower() in ("y", "yes")


def _schedule(options: argparse.Namespace) -> None:
    from pipelines.request import check_cron

    check_cron(options.cron)
    _check_early(options)
    request = _request(options)
    from pipelines.vertex import check_bucket, schedule

    place = chosen_place(options)
    check_bucket(place, request.pipeline_root)
    made = schedule(place, request, cron=options.cron, max_runs=options.max_runs)
    say(f"Scheduled: {made.resource_name}")


def _status(options: argparse.Namespace) -> None:
    from pipelines.vertex import find_job, list_jobs, task_states

    place = chosen_place(options)
    if not options.job:
        for job in list_jobs(place):
            say(_line(job))
        return
    job = find_job(place, options.job)
    say(_line(job))
    for task, state in task_states(job).items():
        say(f"  {task:<24} {state}")


def _cancel(options: argparse.Namespace) -> None:
    from pipelines.vertex import cancel

    cancel(chosen_place(options), options.job)
    say(f"{options.job}: asked to stop")


def _download(options: argparse.Namespace) -> None:
    from pipelines.vertex import download, find_job

    for folder in download(find_job(chosen_place(options), options.job), options.output):
        say(str(folder))


def _line(job: PipelineJob) -> str:
    state = _words(job.state.name) if job.state else "unknown"
    return f"{job.name:<44} {state:<12} {job.create_time or ''}"


def _words(state: str) -> str:
    return state.removeprefix("PIPELINE_STATE_").lower()


def say(text: str) -> None:
    """One answer of a command, on standard output."""
    sys.stdout.write(text + "\n")
