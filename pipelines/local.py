"""A pipeline run on this machine, through `kfp.local`."""

import contextlib
import enum
import io
import shlex
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from kfp import local
from kfp.dsl.base_component import BaseComponent
from kfp.local import config as local_config

from clozeflow.cache import default_folder
from clozeflow.errors import UserError
from pipelines.arguments import check_arguments, spec_of
from pipelines.records import RunFolder, Status
from pipelines.tasks import TaskRunner, installed

_ERROR_LINES = 12
"""The lines of a failed task's output that are shown again at the end."""


class Runner(enum.StrEnum):
    """What runs the tasks."""

    ENVIRONMENT = "environment"
    """Each component's command, in this Python environment."""
    DOCKER = "docker"
    """Each component's image, as `kfp.local` does it."""


class TaskFailed(Exception):
    """A task ended badly; the message shows the task's own error and where its log is."""


def run(
    pipeline: BaseComponent,
    arguments: Mapping[str, Any],
    *,
    output: Path,
    runner: Runner = Runner.ENVIRONMENT,
    in_image: str = "",
    cache: Path | None = None,
    screen: TextIO | None = None,
) -> Path:
    """Runs a pipeline and returns the run's folder (see `records` for what is in it).

    Args:
        pipeline: A pipeline, ours or any that KFP loads.
        arguments: Values of its parameters; the others keep their defaults.
        output: The folder that runs are kept in.
        runner: What runs the tasks.
        in_image: A command that runs another in the image `{image}`: it is put before each task's.
        cache: Where stages find work that earlier runs finished; by default `cache_folder()`.
        screen: Where the tasks' output is shown.

    Raises:
        UserError: An argument is wrong; nothing has run.
        TaskFailed: A task did not end well.
    """
    values = check_arguments(spec_of(pipeline), arguments)
    folder = RunFolder.open(output.absolute(), pipeline.name, values)
    tasks = TaskRunner(
        run=folder,
        screen=screen or sys.stdout,
        cache=cache or cache_folder(),
        in_image=tuple(shlex.split(in_image)),
    )
    status = Status.FAILED
    try:
        with _quiet(folder.path / "record" / "kfp.log"), installed(tasks), _session(folder, runner):
            pipeline(**values)
        status = Status.SUCCEEDED
    except RuntimeError as error:  # what kfp.local raises when a task has failed
        raise _failure(tasks, folder, error) from error
    finally:
        folder.end(status)
    return folder.path


def cache_folder() -> Path:
    """Where stages look for finished work: shared by all runs of this user, or as asked."""
    return default_folder()


@contextlib.contextmanager
def _session(folder: RunFolder, runner: Runner) -> Iterator[None]:
    """`kfp.local` set up for the run, and set back afterwards."""
    before = local_config.LocalExecutionConfig.instance
    # No workspace_root: kfp.local deletes the folder that it is given.
    local.init(runner=_kfp_runner(runner), pipeline_root=str(folder.path.parent))
    try:
        yield
    finally:
        local_config.LocalExecutionConfig.instance = before


def _kfp_runner(runner: Runner) -> Any:
    if runner is Runner.ENVIRONMENT:
        return local.SubprocessRunner(use_venv=False)
    try:
        return local.DockerRunner()
    except ImportError:
        raise UserError(
            "--runner docker",
            "needs the Python package docker",
            fix="Install it (pip install docker), or leave --runner out.",
        ) from None


@contextlib.contextmanager
def _quiet(log: Path) -> Iterator[None]:
    """KFP's own messages go to a file: they would bury what the tasks say."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("a", encoding="utf-8") as file,
        contextlib.redirect_stdout(file),
        warnings.catch_warnings(action="ignore"),
    ):
        yield


def _failure(tasks: TaskRunner, folder: RunFolder, error: Exception) -> TaskFailed:
    if not tasks.failed:
        return TaskFailed(f"kfp.local: {error}\nIts log: {folder.path / 'record' / 'kfp.log'}")
    record = tasks.failed[0]
    log = folder.path / record["log"]
    lines = log.read_text(encoding="utf-8").splitlines()[-_ERROR_LINES:]
    shown = io.StringIO()
    shown.write(f"task {record['task']} failed ({_exit_words(record['exit_code'])}):\n")
    shown.writelines(f"  {line}\n" for line in lines)
    shown.write(f"Its whole output: {log}\n")
    shown.write("The same command goes on from here once the cause is mended.")
    return TaskFailed(shown.getvalue())


def _exit_words(code: int) -> str:
    if code == -signal.SIGKILL:
        return "killed from outside: often for want of memory"
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
