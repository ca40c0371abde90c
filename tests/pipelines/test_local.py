"""Pipelines run on this machine: what is run, shown, recorded and said when it fails."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clozeflow.errors import UserError
from pipelines.local import TaskFailed, cache_folder, run
from pipelines.records import RunFolder, Status, read_tasks
from pipelines.summary import summarize
from tests.pipelines.toys import toy

ROOT = Path(__file__).parents[2]


def run_toy(folder, **arguments):
    screen = io.StringIO()
    return run(toy, arguments, output=folder, screen=screen), screen.getvalue()


def facts(folder):
    return json.loads((folder / "run.json").read_text())


def test_tasks_run_in_this_environment_and_hand_on_their_artifacts(tmp_path):
    folder, shown = run_toy(tmp_path / "runs")
    assert folder == tmp_path / "runs" / "toy-001"
    assert (folder / "add" / "out").read_text() == "ab"
    assert "writing ab" in shown


def test_tasks_run_by_a_command_that_enters_their_image(tmp_path):
    wrapper = tmp_path / "enter.sh"
    wrapper.write_text('echo "in $1"; shift; exec "$@"')
    screen = io.StringIO()
    command = f"sh {wrapper} {{image}}"
    folder = run(toy, {}, output=tmp_path / "runs", in_image=command, screen=screen)
    image = read_tasks(folder)[0]["image"]
    assert f"in {image}\n" in screen.getvalue()
    assert "writing ab" in screen.getvalue()


def test_a_condition_on_a_parameter_output_is_followed(tmp_path):
    short, _ = run_toy(tmp_path)
    long, _ = run_toy(tmp_path, second="bbbb")
    assert [task["task"] for task in read_tasks(short)] == ["start", "add"]
    assert [task["task"] for task in read_tasks(long)] == ["start", "add", "start-2"]


def test_every_task_is_recorded(tmp_path):
    folder, _ = run_toy(tmp_path, second="xy")
    first, second = read_tasks(folder)
    assert second["parameters"] == {"text": "xy"}
    assert "image" not in second  # it ran in none
    assert second["exit_code"] == 0
    assert second["status"] == Status.SUCCEEDED
    assert first["started"] < first["ended"] <= second["started"]
    assert second["executor_output"]["artifacts"]["out"]["artifacts"][0]["metadata"]["length"] == 3
    assert (folder / second["log"]).read_text() == "writing axy\n"
    assert facts(folder)["parameters"] == {"first": "a", "second": "xy", "times": 1}
    assert facts(folder)["status"] == Status.SUCCEEDED


def test_kfps_own_messages_are_kept_out_of_sight(tmp_path, capfd):
    folder, shown = run_toy(tmp_path)
    captured = capfd.readouterr()
    assert shown == "── start\nwriting a\n── add\nwriting ab\n"
    assert captured.out + captured.err == ""
    assert "finished with status" in (folder / "record" / "kfp.log").read_text()


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ("fail", ["task add failed (exit code 2)", "error: text: must not fail (got fail)"]),
        ("die", ["task add failed (killed from outside: often for want of memory)"]),
    ],
)
def test_a_failed_task_is_shown_by_its_own_words(tmp_path, second, words):
    with pytest.raises(TaskFailed) as caught:
        run_toy(tmp_path, second=second)
    for word in words:
        assert word in str(caught.value)
    assert str(tmp_path / "toy-001" / "record" / "add.log") in str(caught.value)
    assert facts(tmp_path / "toy-001")["status"] == Status.FAILED


def test_a_run_that_failed_is_taken_up_in_its_folder(tmp_path):
    for _ in range(2):
        with pytest.raises(TaskFailed):
            run_toy(tmp_path, second="fail")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["latest", "toy-001"]
    run_toy(tmp_path, second="b")
    assert (tmp_path / "latest").resolve() == tmp_path / "toy-002"


def test_a_run_that_another_process_holds_is_left_alone(tmp_path):
    values = {"first": "a"}
    held = RunFolder.open(tmp_path, "toy", values)
    other = RunFolder.open(tmp_path, "toy", values)
    assert (held.path.name, other.path.name) == ("toy-001", "toy-002")
    other.end(Status.FAILED)
    held.end(Status.FAILED)
    assert RunFolder.open(tmp_path, "toy", values).path.name == "toy-002"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"secnd": "b"}, "Did you mean second"),
        ({"second": 3}, "second: has the wrong type"),
        ({"times": "many"}, "times: has the wrong type"),
        ({"times": 1.5}, "expected an integer"),
        ({"times": True}, "expected an integer"),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_runs(tmp_path, arguments, message):
    with pytest.raises(UserError, match=message):
        run_toy(tmp_path / "runs", **arguments)
    assert not (tmp_path / "runs").exists()


def test_the_folder_of_the_user_keeps_its_files(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    run_toy(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_cache_is_where_the_environment_says(tmp_path, monkeypatch):
    assert cache_folder() == tmp_path / "xdg-cache" / "clozeflow"
    monkeypatch.setenv("CLOZEFLOW_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("CLOZEFLOW_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "clozeflow"


def test_summary_says_where_the_artifacts_are(tmp_path):
    folder, _ = run_toy(tmp_path)
    text = summarize(folder)
    assert str(folder / "add" / "out") in text
    assert "is_long: false" in text


_SLEEPER = """
import sys, pathlib, kfp.dsl as dsl
from pipelines.local import run
code = "import time, sys; print('asleep', flush=True); time.sleep(60)"
@dsl.container_component
def sleeper(out: dsl.Output[dsl.Dataset]):
    return dsl.ContainerSpec(image="toy", command=["python3", "-c", code], args=["{{$}}"])
@dsl.pipeline(name="sleep")
def sleep():
    sleeper()
import signal
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
run(sleep, {}, output=pathlib.Path(sys.argv[1]))
"""


def test_ending_the_run_ends_its_task(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", _SLEEPER, str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout.readline() == "── sleeper\n"
    assert process.stdout.readline() == "asleep\n"
    start = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 143
    assert time.monotonic() - start < 20
    assert facts(tmp_path / "sleep-001")["status"] == Status.FAILED
