"""The compiler's process: a program of ours stands in its place, as any program may behave."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clozeflow.preflight import compilation, processes, tpu_compiler
from clozeflow.preflight.compilation import (
    PYTHON_VARIABLE,
    Compilation,
    Status,
    TpuCompiler,
    Until,
    find_python,
)
from clozeflow.preflight.topologies import core_of, topology_of
from clozeflow.slices import SLICES, find_slice


@pytest.fixture(autouse=True)
def own_lock(tmp_path, monkeypatch):
    """These compilers are none, and wait for no real one."""
    monkeypatch.setattr(compilation, "lock_path", lambda: tmp_path / "lock")


TOPOLOGY = topology_of(find_slice("v5e-4"))


def compiler_that(tmp_path: Path, body: str, *, seconds: float = 30) -> TpuCompiler:
    """One whose Python is a shell script."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho once >> {tmp_path}/runs\n{body}\n")
    python.chmod(0o755)
    return TpuCompiler(
        python=python,
        versions={"libtpu": "1"},
        cache_folder=tmp_path / "cache",
        time_limit_seconds=seconds,
    )


def num_runs(tmp_path: Path) -> int:
    return len((tmp_path / "runs").read_text().splitlines())


def ask(compiler: TpuCompiler, fingerprint: str = "sha256:1", until=Until.COMPILED) -> Compilation:
    return compiler.compile(b"module", fingerprint=fingerprint, topology=TOPOLOGY, until=until)


def test_an_answer_is_asked_for_once(tmp_path):
    answer = json.dumps({"status": "compiled", "flops": 3.0})
    compiler = compiler_that(tmp_path, f"echo '{answer}'")
    first = ask(compiler)
    assert (first.status, first.figures) == (Status.COMPILED, {"flops": 3.0})
    assert ask(compiler) == first
    assert ask(compiler, until=Until.PLACED) == first  # which knows more
    assert num_runs(tmp_path) == 1
    ask(compiler, fingerprint="sha256:2")
    assert num_runs(tmp_path) == 2


def test_a_spoilt_entry_of_the_cache_is_asked_for_again(tmp_path):
    compiler = compiler_that(tmp_path, """echo '{"status": "compiled"}'""")
    ask(compiler)
    (entry,) = (tmp_path / "cache").iterdir()
    entry.write_bytes(entry.read_bytes()[:20])
    assert ask(compiler).status is Status.COMPILED
    assert num_runs(tmp_path) == 2


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("echo no help >&2; exit 3", "exit code 3: no help"),
        ("kill -SEGV $$", "exit code -11"),
        ("echo nonsense", "not understood"),
    ],
)
def test_a_crash_says_nothing_and_is_not_kept(tmp_path, body, words):
    compiler = compiler_that(tmp_path, body)
    answer = ask(compiler)
    assert answer.status is Status.UNAVAILABLE
    assert words in answer.message
    ask(compiler)
    assert num_runs(tmp_path) == 2


def test_a_compiler_that_hangs_is_ended(tmp_path):
    answer = ask(compiler_that(tmp_path, "exec sleep 60", seconds=0.5))
    assert answer.status is Status.UNAVAILABLE
    assert "not within" in answer.message


def test_it_is_stopped_once_memory_is_settled(tmp_path):
    body = """echo 'I heap_simulator.h:1] Primary algorithm finished with size: 4096' >&2
echo 'W llo_module.h:1] the next stage' >&2
exec sleep 60"""
    answer = ask(compiler_that(tmp_path, body), until=Until.PLACED)
    assert (answer.status, answer.memory) == (Status.PLACED, {"temporary_bytes": 4096.0})


def test_a_long_log_keeps_its_beginning_and_its_end():
    code = "import sys\nfor i in range(9000): print('line', i, file=sys.stderr)"
    done = processes.run([sys.executable, "-c", code], time_limit_seconds=30)
    assert done.log.startswith("line 0\n")
    assert done.log.endswith("line 8999\n")
    assert len(done.log) < 100_000
    assert not done.was_stopped


def test_what_cannot_be_started_gives_no_answer():
    with pytest.raises(processes.NoAnswer):
        processes.run(["/nowhere/python"], time_limit_seconds=1, stop_at=re.compile("x"))


def test_the_environment_is_named_or_absent(tmp_path, monkeypatch):
    monkeypatch.setenv(PYTHON_VARIABLE, str(tmp_path / "python"))
    assert find_python() is None
    found = TpuCompiler.find(time_limit_seconds=1)
    assert isinstance(found, Compilation)
    assert "make preflight-env" in found.message
    (tmp_path / "python").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python").chmod(0o755)
    assert "has no compiler" in TpuCompiler.find(time_limit_seconds=1).message


@pytest.mark.parametrize("name", SLICES)
def test_every_slice_has_a_topology(name):
    tpu = find_slice(name)
    generation, _, grid = topology_of(tpu).name.partition(":")
    width, height = map(int, grid.split("x"))
    assert generation == tpu.generation
    assert width * height == tpu.num_chips


@pytest.mark.parametrize(
    ("name", "units", "size"), [("v2-8", 1, 128), ("v3-8", 2, 128), ("v5e-4", 4, 128)]
)
def test_clocks_are_those_of_the_peak_rates(name, units, size):
    core = core_of(find_slice(name))
    assert core.clock_hertz * units * size * size * 2 == pytest.approx(core.peak_flops, rel=0.01)


def test_the_compiler_ends_with_whoever_asked(tmp_path):
    """Killed, a preflight leaves no compiler that works on for minutes."""
    child = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); import tpu_compiler as compiler; "
        "compiler.end_with_parent(); print('ready', flush=True); time.sleep(60)"
    )
    parent = (
        "import subprocess, sys, time; "
        "process = subprocess.Popen([sys.executable, '-c', *sys.argv[1:]], stdout=-1, text=True); "
        "process.stdout.readline(); print(process.pid, flush=True); time.sleep(60)"
    )
    folder = str(Path(tpu_compiler.__file__).parent)
    command = [sys.executable, "-c", parent, child, folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        pid = int(process.stdout.readline())
        process.kill()
    stat = Path(f"/proc/{pid}/stat")
    until = time.monotonic() + 10
    while stat.exists() and ") Z " not in stat.read_text() and time.monotonic() < until:
        time.sleep(0.05)
    assert not stat.exists() or ") Z " in stat.read_text()
