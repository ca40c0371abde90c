"""Units of work: in order, in parallel, and not twice."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clozeflow.engine import Workers, run_units
from clozeflow.errors import UserError
from clozeflow.registry import STAGES


def square(unit):
    return unit * unit


def note_and_square(unit):
    folder, value = unit
    Path(folder, f"{value}-{os.getpid()}-{os.urandom(4).hex()}").touch()
    return value * value


def refuse_three(unit):
    folder, value = unit
    if value == 3 and not Path(folder, "mended").exists():
        raise UserError("unit 3", "is broken", fix="Mend it.")
    return note_and_square(unit)


def die(unit):
    os._exit(9)


@pytest.mark.parametrize("num_workers", [1, 2])
def test_results_are_in_the_units_order(num_workers):
    results = run_units(
        square, range(20), workers=Workers(num_workers=num_workers), description="t"
    )
    assert results == [n * n for n in range(20)]


@pytest.mark.parametrize("num_workers", [1, 2])
def test_finished_units_are_not_done_again(tmp_path, num_workers):
    seen, ledger = tmp_path / "seen", str(tmp_path / "ledger")
    seen.mkdir()
    units = [(str(seen), n) for n in range(6)]

    def run(work):
        return run_units(
            work, units, workers=Workers(num_workers=num_workers), description="t", ledger=ledger
        )

    with pytest.raises(UserError, match="unit 3"):
        run(refuse_three)
    done = {path.name.split("-")[0] for path in seen.iterdir()}
    recorded = len(list(Path(ledger).iterdir()))
    assert "3" not in done
    assert recorded >= 1
    (seen / "mended").touch()
    assert run(refuse_three) == [n * n for n in range(6)]
    calls = len([p for p in seen.iterdir() if p.name != "mended"])
    assert calls == len(done) + 6 - recorded


def test_killed_worker_is_said_in_words():
    with pytest.raises(UserError, match="was killed from outside"):
        run_units(die, [1, 2], workers=Workers(num_workers=2), description="t")


def note_and_wait(folder):
    Path(folder, str(os.getpid())).touch()
    time.sleep(60)


@pytest.mark.parametrize("error", [EOFError, ConnectionResetError])
def test_killed_while_its_workers_start_is_said_in_words(monkeypatch, error):
    def killed(*_):
        raise error

    monkeypatch.setattr("multiprocessing.forkserver.read_signed", killed)
    with pytest.raises(UserError, match="was killed from outside"):
        run_units(square, [1, 4, 9], workers=Workers(num_workers=2), description="x")


def test_workers_end_with_a_run_that_was_killed(tmp_path):
    code = (
        "from clozeflow.engine import Workers, run_units; from tests.test_engine import *\n"
        f"run_units(note_and_wait, [{str(tmp_path)!r}] * 2, workers=Workers(num_workers=2),"
        " description='t')"
    )
    run = subprocess.Popen([sys.executable, "-c", code])
    until(lambda: len(list(tmp_path.iterdir())) == 2)
    workers = [int(path.name) for path in tmp_path.iterdir()]
    run.kill()
    run.wait()
    until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_workers": -1}, "--num-workers"),
        ({"beam_args": "--runner=DirectRunner"}, "read by --engine beam alone"),
        ({"engine": "beam", "beam_args": "--runner='Direct"}, "cannot be split"),
        ({"engine": "spark"}, "process_pool, beam"),
    ],
)
@pytest.mark.parametrize("stage", ["corpus", "tokenizer", "shard"])
def test_settings_that_no_engine_can_work_with_are_refused(stage, settings, message):
    with pytest.raises(UserError, match=message):
        STAGES[stage].config(**settings)


def test_beam_that_is_not_installed_is_said_at_once(monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    monkeypatch.delitem(sys.modules, "clozeflow.beam_engine", raising=False)
    config = STAGES["shard"].config(engine="beam")
    with pytest.raises(UserError, match=r"Install clozeflow\[beam\]"):
        config.check_locations(["anywhere"])


def test_a_unit_whose_record_is_damaged_is_done_again(tmp_path, caplog):
    seen, ledger = tmp_path / "seen", str(tmp_path / "ledger")
    seen.mkdir()
    units = [(str(seen), value) for value in range(3)]
    how = {"workers": Workers(num_workers=1), "description": "t", "ledger": ledger}
    assert run_units(note_and_square, units, **how) == [0, 1, 4]
    Path(ledger, "000001.json").write_text("{")
    assert run_units(note_and_square, units, **how) == [0, 1, 4]
    assert sorted(path.name[0] for path in seen.iterdir()) == ["0", "1", "1", "2"]
    assert "000001.json: is damaged" in caplog.text
