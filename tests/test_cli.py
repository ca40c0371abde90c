"""The command line: flags, help, errors, and what importing it does not import."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clozeflow import cli
from clozeflow.config import flag
from clozeflow.registry import STAGES


def run(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "clozeflow.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_help_lists_every_command():
    result = run("--help")
    assert result.returncode == 0
    for command in (*STAGES, "predict-dataset", "verify"):
        assert command in result.stdout


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_flags_are_the_fields_of_the_config(stage, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["clozeflow", stage.command or stage.name, "--help"])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    assert exit_.value.code == 0
    text = capsys.readouterr().out
    names = [*stage.inputs, "output", *(field.name for field in dataclasses.fields(stage.config))]
    for name in names:
        assert flag(name) in text


def test_nothing_heavy_is_imported_to_answer_help():
    heavy = "tensorflow,transformers,tokenizers,sentencepiece,datasets,matplotlib,pyarrow,kfp,gcsfs"
    code = (
        f"import sys, clozeflow.cli; print([m for m in {heavy.split(',')!r} if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_user_error_is_one_message_without_a_traceback(tmp_path):
    (tmp_path / "begun").write_text("")
    result = run("verify", str(tmp_path))
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: {tmp_path}: is no finished artifact")
    assert "Traceback" not in result.stderr
    result = run("verify", str(tmp_path / "nowhere"))
    assert result.stderr.startswith(f"error: {tmp_path / 'nowhere'}: does not exist, or is empty")


def test_verify_says_of_every_folder_what_it_is(tmp_path):
    result = run("verify", str(tmp_path / "first"), str(tmp_path / "second"))
    assert result.returncode == 2
    assert "first" in result.stderr
    assert "second" in result.stderr


def test_verify_of_nothing_is_an_error():
    result = run("verify")
    assert result.returncode == 2
    assert "no folder" in result.stderr


def test_an_empty_output_is_refused():
    result = run("corpus", "--source", "sample", "--output", "")
    assert result.returncode == 2
    assert "--output: is empty" in result.stderr


def test_wrong_value_names_the_flag(tmp_path):
    result = run("shard", "--corpus", "a", "--tokenizer", "b", "--output", "c", "--seq-len", "4")
    assert result.returncode == 2
    assert "--seq-len" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--require a --require b", "--require a b"),
        ("--require a c --seed 3 --require=b --output o", "--require a c b --seed 3 --output o"),
        ("--prompts p --require=a --prompts q --require b", "--prompts p q --require a b"),
        ("--output o --seed 1 --seed 2", "--output o --seed 1 --seed 2"),
        ("evaluate --model m", "evaluate --model m"),
    ],
)
def test_a_repeated_flag_of_several_values_loses_none(given, expected):
    assert cli.gather_repeated(given.split()) == expected.split()


@pytest.mark.parametrize("order", [("loss<=3", "no_figure>=1"), ("no_figure>=1", "loss<=3")])
def test_every_repeated_threshold_is_read(order):
    flags = [text for threshold in order for text in ("--require", threshold)]
    result = run("evaluate", "--model", "m", "--shards", "s", "--output", "o", *flags)
    assert result.returncode == 2
    assert "no_figure" in result.stderr


def interrupted(command, seconds_after_its_first_child):
    """The exit code and the errors of a command that is interrupted as from a terminal."""
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children")
    while run.poll() is None and not children.read_text():
        time.sleep(0.01)
    time.sleep(seconds_after_its_first_child)
    os.killpg(run.pid, signal.SIGINT)
    return run.wait(30), run.stderr.read()


def test_an_interrupt_is_one_line_and_nothing_finished(tmp_path):
    source, output = tmp_path / "text.txt", tmp_path / "corpus"
    with source.open("w") as file:
        file.writelines(f"line {n} tells of {n * n} and of {n % 977}\n" for n in range(600_000))
    command = [sys.executable, "-m", "clozeflow", "corpus", "--source", str(source)]
    command += ["--output", str(output), "--num-workers", "2"]
    for seconds in (0.0, 0.2, 0.4, 0.6, 1.2):
        code, errors = interrupted(command, seconds)
        assert code == 130
        assert "Traceback" not in errors
        assert errors.count("interrupted: the same command goes on where it stopped") == 1
        assert not (output / "manifest.json").exists()


def test_an_interrupted_import_is_one_line():
    code = (
        "import sys, signal\n"
        "class Finder:\n"
        "    def find_spec(name, *_):\n"
        "        if name == 'tyro': signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder)\n"
        "from clozeflow.__main__ import main; main()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 130
    assert run.stderr.splitlines() == ["interrupted: the same command goes on where it stopped"]
