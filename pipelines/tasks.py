"""Tasks of a local run: each component's own command, in this environment, recorded.

`kfp.local` runs container components only in Docker. Its dispatcher looks its subprocess handler
up when a task starts; the handler here takes that place and runs the command itself.
"""

import contextlib
import dataclasses
import inspect
import json
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from kfp.local import executor_input_utils, subprocess_task_handler
from kfp.local.io import IOStore
from kfp.local.orchestrator.enhanced_dag_orchestrator import ConditionEvaluator
from kfp.local.status import Status as KfpStatus
from kfp.local.task_handler_interface import ITaskHandler

from clozeflow.cache import ENVIRONMENT_VARIABLE
from pipelines.records import RunFolder, Status, now
from pipelines.terminal import run_shown


@dataclasses.dataclass(kw_only=True)
class TaskRunner:
    """Runs the tasks of one run and writes their records."""

    run: RunFolder
    screen: TextIO
    cache: Path | None
    """Where stages find work that earlier runs finished."""
    in_image: tuple[str, ...] = ()
    """A command that runs another in the image `{image}`; without one, tasks run right here."""
    failed: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """Records of the tasks that failed."""
    unnamed: int = 0
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def handler(
        self,
        image: str,
        full_command: Sequence[str],
        pipeline_root: str,
        runner: object,
        env_vars: Mapping[str, str] | None = None,
    ) -> ITaskHandler:
        """What `kfp.local` calls for each task, in place of its subprocess handler."""
        return _Handler(self, image, list(full_command), dict(env_vars or {}))

    def execute(self, image: str, command: list[str], variables: Mapping[str, str]) -> KfpStatus:
        """Runs a task's command and keeps its record."""
        executor_input = find_executor_input(command) or {}
        task = self._name(executor_input, command)
        log = self.run.log_path(task)
        log.parent.mkdir(parents=True, exist_ok=True)
        record: dict[str, Any] = {
            "task": task,
            # The component's image: what did the work only where the task was run in it.
            **({"image": image} if self._enters_image() else {}),
            "command": [_shortened(word) for word in command],
            "parameters": executor_input.get("inputs", {}).get("parameterValues", {}),
            "executor_input": executor_input,
            "log": str(log.relative_to(self.run.path)),
            "started": now(),
            "status": Status.RUNNING,
        }
        self.run.write_task(task, record)
        self.screen.write(f"── {task}\n")
        exit_code = run_shown(
            self._full_command(image, command),
            environment=self._environment(variables),
            screen=self.screen,
            log=log,
            keep_open=(self.run.lock_descriptor,),
        )
        return self._finish(task, record, exit_code)

    def _enters_image(self) -> bool:
        return any("{image}" in word for word in self.in_image)

    def _full_command(self, image: str, command: list[str]) -> list[str]:
        if self.in_image:
            return [*(word.replace("{image}", image) for word in self.in_image), *command]
        return resolve_command(command)

    def _name(self, executor_input: Mapping[str, Any], command: Sequence[str]) -> str:
        """A task's name is that of its folder; one that is told of no folder gets a number."""
        if executor_input:
            return Path(executor_input["outputs"]["outputFile"]).parent.name
        with self.lock:
            self.unnamed += 1
            return f"{Path(command[0]).name}-{self.unnamed}"

    def _finish(self, task: str, record: dict[str, Any], exit_code: int) -> KfpStatus:
        record.update(
            ended=now(),
            exit_code=exit_code,
            status=Status.FAILED if exit_code else Status.SUCCEEDED,
            executor_output=_executor_output(record["executor_input"]),
        )
        self.run.write_task(task, record)
        if exit_code:
            with self.lock:
                self.failed.append(record)
            return KfpStatus.FAILURE
        return KfpStatus.SUCCESS

    def _environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        scripts = str(Path(sys.executable).parent)
        environment = {**os.environ, **variables}
        environment["PATH"] = os.pathsep.join([scripts, environment.get("PATH", os.defpath)])
        environment["PYTHONUNBUFFERED"] = "1"
        if self.cache:
            environment[ENVIRONMENT_VARIABLE] = str(self.cache)
        return environment


class _Handler(ITaskHandler):
    """One task, as `kfp.local` sees it."""

    def __init__(
        self, tasks: TaskRunner, image: str, command: list[str], variables: dict[str, str]
    ) -> None:
        self._tasks, self._image = tasks, image
        self._command, self._variables = command, variables

    def run(self) -> KfpStatus:
        return self._tasks.execute(self._image, self._command, self._variables)


@contextlib.contextmanager
def installed(tasks: TaskRunner) -> Iterator[None]:
    """Lets `kfp.local` use the runner's handler and its folder, and mends one of its faults."""
    with contextlib.ExitStack() as stack:
        for owner, name, value in (
            (subprocess_task_handler, "SubprocessTaskHandler", tasks.handler),
            # By default the folder bears the time: a run that was killed could not go on in it.
            (
                executor_input_utils,
                "get_local_pipeline_resource_name",
                lambda pipeline: tasks.run.path.name,
            ),
            (ConditionEvaluator, "_resolve_pipeline_channel", staticmethod(_resolve_channel)),
        ):
            stack.enter_context(_replaced(owner, name, value))
        yield


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = inspect.getattr_static(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


_resolve_as_kfp_does = ConditionEvaluator._resolve_pipeline_channel


def _resolve_channel(channel: str, io_store: IOStore) -> Any:
    """The value that a condition speaks of: `pipelinechannel--TASK-OUTPUT`.

    KFP 2.17 finds an output only if its name is "Output"; of any other it takes the condition
    for false, without a word.
    """
    name = channel.removeprefix("pipelinechannel--")
    for dash in (match.start() for match in re.finditer("-", name)):
        with contextlib.suppress(ValueError):
            return io_store.get_task_output(name[:dash], name[dash + 1 :])
    return _resolve_as_kfp_does(channel, io_store)


def find_executor_input(command: Sequence[str]) -> dict[str, Any] | None:
    """The executor input among a command's arguments; KFP's own Python components have one too."""
    for word in reversed(command):
        if word.startswith("{"):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                value = json.loads(word)
                value["outputs"]["outputFile"]
                return value
    return None


def _executor_output(executor_input: Mapping[str, Any]) -> dict[str, Any]:
    path = Path(executor_input.get("outputs", {}).get("outputFile", ""))
    return json.loads(path.read_text()) if path.is_file() else {}


def resolve_command(command: list[str]) -> list[str]:
    """The command with this environment's Python in place of an image's."""
    if command and Path(command[0]).name in ("python", "python3"):
        return [sys.executable, *command[1:]]
    if any("kfp.dsl.executor_main" in word for word in command):
        return subprocess_task_handler.replace_python_executable(command, sys.executable)
    return command


def _shortened(word: str) -> str:
    """The executor input stands beside the command, and need not stand in it too."""
    return "{{$}}" if word.startswith("{") and '"outputFile"' in word else word
