"""What happens around a stage: check, reuse, work, finish."""

import dataclasses
import logging

import pytest

from clozeflow import artifacts, stages, storage, verification
from clozeflow.artifacts import ArtifactType
from clozeflow.cache import StageCache
from clozeflow.errors import UserError
from clozeflow.stages import run_stage
from tests.toy import ToyConfig, letters, toy_stage, write_letters


class Counted:
    """The toy's work, counted, and broken where asked."""

    def __init__(self, fail=False):
        self.calls, self.fail = 0, fail

    def __call__(self, config, inputs, output):
        self.calls += 1
        if self.fail:
            storage.write_text(storage.join(output, "letters"), "half")
            raise RuntimeError
        return write_letters(config, inputs, output)


def make(folder, *, size=3, run=write_letters, cache=None, inputs=None, **kinds):
    stage = toy_stage(run, **kinds)
    config = ToyConfig(size=size)
    return run_stage(stage, config, inputs=inputs or {}, output=str(folder), cache=cache)


def test_manifest_says_what_was_made_and_of_what(tmp_path):
    first = make(tmp_path / "a")
    second = make(
        tmp_path / "b", inputs={"corpus": str(tmp_path / "a")}, corpus=ArtifactType.CORPUS
    )
    assert letters(tmp_path / "b") == "xxxxxx"
    assert second.input("corpus").fingerprint == first.fingerprint
    assert artifacts.read_manifest(str(tmp_path / "b")) == second
    assert {file.path for file in second.files} == {"letters", "report.html"}
    assert not (tmp_path / "b" / stages.WORK_FOLDER).exists()


def test_same_work_in_another_folder_has_the_same_fingerprint(tmp_path):
    assert make(tmp_path / "a").fingerprint == make(tmp_path / "elsewhere").fingerprint


def test_same_command_again_does_no_work(tmp_path):
    work = Counted()
    first = make(tmp_path / "a", run=work)
    assert make(tmp_path / "a", run=work) == first
    assert work.calls == 1


def test_folder_of_other_settings_is_refused_with_the_difference(tmp_path):
    make(tmp_path / "a", size=3)
    with pytest.raises(UserError, match="size is 3, asked for 4"):
        make(tmp_path / "a", size=4)
    assert letters(tmp_path / "a") == "xxx"


class Accident(Counted):
    """Work whose first outcome is an accident's."""

    def __call__(self, config, inputs, output):
        made = super().__call__(config, inputs, output)
        return dataclasses.replace(made, may_be_reused=self.calls > 1)


@pytest.mark.parametrize("size", [3, 4])
def test_the_same_command_makes_another_attempt_after_an_accident(tmp_path, size):
    work = Accident()
    make(tmp_path / "a", run=work)
    verification.verify(str(tmp_path / "a"))
    assert make(tmp_path / "a", run=work, size=size).properties["size"] == size
    assert make(tmp_path / "a", run=work, size=size) == artifacts.read_manifest(str(tmp_path / "a"))
    assert work.calls == 2
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == [
        "letters",
        "manifest.json",
        "report.html",
    ]


def test_what_came_of_an_accident_is_no_other_stages_to_throw_away(tmp_path):
    make(tmp_path / "a", run=Accident())
    make(tmp_path / "corpus")
    with pytest.raises(UserError, match="it was made by first, not second"):
        make(
            tmp_path / "a",
            inputs={"corpus": str(tmp_path / "corpus")},
            corpus=ArtifactType.CORPUS,
        )
    assert letters(tmp_path / "a") == "xxx"


@pytest.mark.parametrize("left", [["letters", ".provisional"], [".provisional"]])
def test_a_run_killed_while_it_threw_an_accident_away_goes_on(tmp_path, left):
    work = Accident()
    make(tmp_path / "a", run=work)
    for path in (tmp_path / "a").iterdir():
        if path.name not in left:
            path.unlink()
    make(tmp_path / "a", run=work)
    assert work.calls == 2


def test_folder_of_another_input_is_refused(tmp_path):
    for name, size in (("a", 3), ("b", 4)):
        make(tmp_path / name, size=size)
    make(tmp_path / "c", inputs={"corpus": str(tmp_path / "a")}, corpus=ArtifactType.CORPUS)
    with pytest.raises(UserError, match="another corpus"):
        make(tmp_path / "c", inputs={"corpus": str(tmp_path / "b")}, corpus=ArtifactType.CORPUS)


def test_failed_work_leaves_no_manifest_and_is_completed(tmp_path):
    with pytest.raises(RuntimeError):
        make(tmp_path / "a", run=Counted(fail=True))
    assert not artifacts.is_finished(str(tmp_path / "a"))
    with pytest.raises(UserError, match="no finished artifact"):
        make(tmp_path / "b", inputs={"corpus": str(tmp_path / "a")}, corpus=ArtifactType.CORPUS)
    make(tmp_path / "a")
    assert letters(tmp_path / "a") == "xxx"


def test_unfinished_work_of_other_settings_is_thrown_away(tmp_path, caplog):
    with pytest.raises(RuntimeError):
        make(tmp_path / "a", run=Counted(fail=True))
    with caplog.at_level(logging.WARNING):
        make(tmp_path / "a", size=5)
    assert "other settings" in caplog.text
    assert letters(tmp_path / "a") == "xxxxx"


def test_a_folder_of_the_users_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="not empty"):
        make(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_inputs_that_name_another_ancestor_are_refused(tmp_path):
    for name, size in (("a", 3), ("b", 4)):
        make(tmp_path / name, size=size)
    make(tmp_path / "shards", inputs={"corpus": str(tmp_path / "a")}, corpus=ArtifactType.CORPUS)
    kinds = {"corpus": ArtifactType.CORPUS, "shards": ArtifactType.SHARDS}
    inputs = {"corpus": str(tmp_path / "b"), "shards": str(tmp_path / "shards")}
    with pytest.raises(UserError, match="is not the corpus that --shards"):
        make(tmp_path / "c", inputs=inputs, **kinds)


def test_cache_gives_the_same_work_in_another_folder(tmp_path):
    cache, work = StageCache(tmp_path / "cache"), Counted()
    first = make(tmp_path / "a", run=work, cache=cache)
    second = make(tmp_path / "b", run=work, cache=cache)
    assert (work.calls, second) == (1, first)
    assert letters(tmp_path / "b") == "xxx"


def test_cache_does_not_serve_other_settings(tmp_path):
    cache, work = StageCache(tmp_path / "cache"), Counted()
    make(tmp_path / "a", run=work, cache=cache)
    make(tmp_path / "b", size=4, run=work, cache=cache)
    assert work.calls == 2


@pytest.mark.parametrize("damage", ["removed", "changed"])
def test_cache_does_not_serve_damaged_work(tmp_path, damage):
    cache, work = StageCache(tmp_path / "cache"), Counted()
    make(tmp_path / "a", run=work, cache=cache)
    if damage == "removed":
        storage.remove_folder(str(tmp_path / "a"))
    else:
        (tmp_path / "a" / "letters").write_text("xyx")
    make(tmp_path / "b", run=work, cache=cache)
    assert work.calls == 2
    assert letters(tmp_path / "b") == "xxx"


def test_cache_finds_work_whose_first_folder_is_gone(tmp_path):
    cache, work = StageCache(tmp_path / "cache"), Counted()
    make(tmp_path / "a", run=work, cache=cache)
    make(tmp_path / "b", run=work, cache=cache)
    storage.remove_folder(str(tmp_path / "a"))
    make(tmp_path / "c", run=work, cache=cache)
    assert work.calls == 1


def test_restored_work_replaces_what_an_unfinished_run_left(tmp_path):
    cache = StageCache(tmp_path / "cache")
    with pytest.raises(RuntimeError):
        make(tmp_path / "b", run=Counted(fail=True))
    make(tmp_path / "a", cache=cache)
    make(tmp_path / "b", cache=cache)
    assert letters(tmp_path / "b") == "xxx"
    assert not (tmp_path / "b" / stages.WORK_FOLDER).exists()


def test_restored_work_names_its_inputs_where_they_are(tmp_path):
    cache, folders = StageCache(tmp_path / "cache"), {}
    for run in ("one", "two"):
        folders[run] = {"corpus": str(tmp_path / run / "a")}
        make(tmp_path / run / "a", cache=cache)
        second = make(
            tmp_path / run / "b", cache=cache, inputs=folders[run], corpus=ArtifactType.CORPUS
        )
        assert second.input("corpus").uri == folders[run]["corpus"]


def test_cache_leaves_a_folder_of_others_alone(tmp_path):
    cache = StageCache(tmp_path / "cache")
    make(tmp_path / "a", cache=cache)
    storage.write_text(str(tmp_path / "b" / "thesis.txt"), "mine")
    with pytest.raises(UserError, match="was not begun by clozeflow"):
        make(tmp_path / "b", cache=cache)
    assert (tmp_path / "b" / "thesis.txt").read_text() == "mine"


def test_a_run_that_is_refused_leaves_no_folder(tmp_path):
    def refuse(config, inputs, output):
        raise UserError("--corpus", "is of no use", fix="Give another.")

    with pytest.raises(UserError, match="of no use"):
        make(tmp_path / "a", run=refuse)
    assert not (tmp_path / "a").exists()


def test_a_refusal_after_some_work_keeps_the_work(tmp_path):
    def half(config, inputs, output):
        storage.write_text(storage.join(stages.work_folder(output), "unit"), "done")
        raise UserError("--corpus", "ends early", fix="Mend it.")

    with pytest.raises(UserError, match="ends early"):
        make(tmp_path / "a", run=half)
    assert (tmp_path / "a" / stages.WORK_FOLDER / "unit").read_text() == "done"
    make(tmp_path / "a")
    assert letters(tmp_path / "a") == "xxx"
