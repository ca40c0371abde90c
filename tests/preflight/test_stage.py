"""The stage: skipped, without an answer, refused."""

import dataclasses
import json
import sys

import pytest

from clozeflow import stages
from clozeflow.cache import StageCache
from clozeflow.errors import UserError
from clozeflow.preflight import stage
from clozeflow.preflight.compilation import PYTHON_VARIABLE
from clozeflow.preflight.config import PreflightConfig
from clozeflow.preflight.memory import Verdict
from clozeflow.registry import STAGES
from tests.preflight.plans import TrialsByRule, plan_of


@pytest.fixture(autouse=True)
def no_environment(tmp_path, monkeypatch):
    monkeypatch.setenv(PYTHON_VARIABLE, str(tmp_path / "no-python"))


def run(folder, **settings):
    config = PreflightConfig(**settings)
    return stages.run_stage(STAGES["preflight"], config, inputs={}, output=str(folder))


@pytest.mark.parametrize("settings", [{}, {"tpu": "v5e-4", "preflight": "off"}], ids=str)
def test_nothing_to_find_out_is_skipped(tmp_path, caplog, settings):
    with caplog.at_level("INFO"):
        manifest = run(tmp_path / "report", **settings)
    assert manifest.properties["verdict"] == "skipped"
    assert "skipped" in caplog.text
    assert (tmp_path / "report" / "report.html").is_file()


def test_without_the_environment_a_warning_says_so(tmp_path, caplog):
    manifest = run(tmp_path / "report", tpu="v5e-4", preset="base")
    assert manifest.properties["verdict"] == "unavailable"
    assert "make preflight-env" in manifest.properties["reason"]
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    answer = json.loads((tmp_path / "report" / "preflight.json").read_text())
    assert answer["verdict"] == "unavailable"


def test_what_came_of_an_accident_is_tried_again(tmp_path):
    """A crash of the compiler is no property of the step: the next run asks anew."""
    cache = StageCache(tmp_path / "cache")
    config = PreflightConfig(tpu="v5e-4")
    for name in ("first", "second"):
        output = str(tmp_path / name)
        stages.run_stage(STAGES["preflight"], config, inputs={}, output=output, cache=cache)
    skipped = PreflightConfig()
    for name in ("third", "fourth"):
        output = str(tmp_path / name)
        stages.run_stage(STAGES["preflight"], skipped, inputs={}, output=output, cache=cache)
    inodes = [(tmp_path / name / "report.html").stat().st_ino for name in ("first", "second")]
    assert inodes[0] != inodes[1]  # a cached artifact is made of hard links
    inodes = [(tmp_path / name / "report.html").stat().st_ino for name in ("third", "fourth")]
    assert inodes[0] == inodes[1]


def test_the_same_command_sees_an_environment_that_was_made_since(tmp_path, monkeypatch):
    run(tmp_path / "report", tpu="v5e-4")
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho \'{"libtpu": "1"}\'\n')
    python.chmod(0o755)
    monkeypatch.setenv("CLOZEFLOW_PREFLIGHT_PYTHON", str(python))
    manifest = run(tmp_path / "report", tpu="v5e-4")
    assert "there is no preflight environment" not in manifest.properties["reason"]
    assert manifest.input("compiler").uri == "libtpu 1"


def test_what_demands_an_answer_gets_an_error(tmp_path):
    with pytest.raises(UserError, match="--require demands one"):
        run(tmp_path / "report", tpu="v5e-4", require=True)


def test_an_environment_that_appears_is_another_question(tmp_path, monkeypatch):
    config = PreflightConfig(tpu="v5e-4")
    before = stage.source_refs(config)
    python = tmp_path / "python"
    versions = json.dumps({"libtpu": "1"})
    python.write_text(f"#!/bin/sh\necho '{versions}'\n")
    python.chmod(0o755)
    monkeypatch.setenv(PYTHON_VARIABLE, str(python))
    after = stage.source_refs(config)
    assert [ref.name for ref in after] == ["compiler"]
    assert before[0].fingerprint != after[0].fingerprint
    assert stage.source_refs(PreflightConfig()) == ()


def test_a_step_that_does_not_fit_names_what_does(monkeypatch, tmp_path):
    from clozeflow.preflight import module

    products = module.Products(
        flops=1e12, flops_by_group={}, padded_flops=1e12, single_precision=()
    )
    monkeypatch.setattr(module, "products", lambda content: products)
    trials = TrialsByRule(lambda plan: 1 + plan.num_rows / 8)
    trials.compiler = type("Compiler", (), {"versions": {"libtpu": "1"}})()
    with plan_of(per_replica_batch_size=256, seq_len=512) as plan:
        answer = stage.answer_of(trials.compile(plan), trials)
        assert answer.verdict is Verdict.DOES_NOT_FIT
        with pytest.raises(UserError, match="--global-batch-size 480"):
            stage._refuse(plan.config, answer, "somewhere")
    text = "\n".join(answer.lines())
    assert "DOES NOT FIT (33.00 GiB of 16.00 GiB, 206%)" in text
    assert "clozeflow preflight --tpu v5e-4 --num-train-steps 400 --global-batch-size 480" in text
    found = json.loads(json.dumps(answer.to_dict()))
    assert found["proposals"][0]["per_replica_batch_size"] == 120


def test_a_command_to_copy_is_understood(monkeypatch):
    """The command line itself reads what is proposed."""
    import shlex

    from clozeflow import cli
    from clozeflow.preflight.commands import command_of

    seen = []
    monkeypatch.setattr(cli, "_run", seen.append)
    with plan_of(per_replica_batch_size=24, recompute="layers", usd_per_chip_hour=1.2) as plan:
        monkeypatch.setattr(sys, "argv", shlex.split(command_of(plan)))
        cli.main()
        assert seen[0].config.global_batch_size == plan.config.global_batch_size == 96
        tenth = dataclasses.replace(plan.config.training(), warmup_steps=-1)
        assert seen[0].config.training() == tenth


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tpu": "v5e-5"}, "no such slice"),
        ({"tpu": "v5e-4", "global_batch_size": 6}, "cannot be divided"),
        ({"tpu": "v5e-4", "num_train_epochs": 2.0}, "without shards"),
        ({"tpu": "v5e-4", "usd_per_chip_hour": -1.0}, "out of range"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense(settings, words):
    with pytest.raises(UserError, match=words), plan_of(**settings):
        pass
