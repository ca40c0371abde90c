"""The campaign's short form: every stage killed a few times ends in the calm run's bytes."""

import random

import pytest

from tests.faults import kills, pipeline
from tests.faults.kills import Report

SEED = 7
STARTED = {"tokenizer": 3, "shard": 3, "publish": 3, "train": 1}
"""Kills at random moments, by stage; those of `make test-faults` are hundreds."""


def check(report: Report) -> None:
    assert not report.faults, report


@pytest.mark.parametrize(
    ("stage", "number"), [(stage, n) for stage, count in STARTED.items() for n in range(count)]
)
def test_killed_at_a_random_moment(calm, tmp_path, stage, number):
    check(kills.kill_randomly(calm, stage, tmp_path, random.Random(f"{SEED} {stage} {number}")))


@pytest.mark.parametrize("event", [1, 2, 3, 4, 5, 6, 7, 8])
def test_killed_before_its_first_file_operations(calm, tmp_path, event):
    """The folder is then ours by half: the same command must still know it."""
    report = kills.kill_at_event(calm, "publish", tmp_path, event)
    assert report.codes == [-9, 0]
    check(report)


def test_killed_at_the_very_end(calm, tmp_path):
    """With the manifest written, and the work folder not yet gone."""
    arguments = calm.pipeline.arguments("shard", output=str(tmp_path / "shards"))
    pipeline.run_well(arguments)
    work = tmp_path / "shards" / ".work" / "shards"
    work.mkdir(parents=True)
    (work / "rest").write_bytes(b"x")
    report = Report(stage="shard", how="left behind")
    kills.finish(calm, "shard", tmp_path, report)
    check(report)


def test_a_run_that_died_while_it_threw_work_away(calm, tmp_path):
    """Work with other settings gives way to this run, though another one died at that."""
    arguments = calm.pipeline.arguments("shard", output=str(tmp_path / "shards"))
    assert arguments[-2] == "--examples-per-shard"
    changed = [*arguments[:-1], "32"]
    kill = {"below": str(tmp_path), "event": 40}
    assert pipeline.run(changed, kill_at=kill).code == -9
    for event in (2, 5, 9):
        kill["event"] = event
        assert pipeline.run(arguments, kill_at=kill).code == -9
    report = Report(stage="shard", how="threw away")
    kills.finish(calm, "shard", tmp_path, report)
    check(report)
