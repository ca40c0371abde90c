"""Checkpoints come back whole, or the one before does."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from clozeflow.training.checkpoint import Checkpoints
from clozeflow.training.progress import Progress
from clozeflow.training.step import StepMetrics


def metrics(loss: float) -> StepMetrics:
    return StepMetrics(loss=loss, masked_accuracy=0.1, gradient_norm=1.5, learning_rate=1e-3)


@pytest.fixture
def variable() -> tf.Variable:
    return tf.Variable(np.zeros([3, 2], np.float32))


@pytest.fixture
def checkpoints(tmp_path: Path, variable: tf.Variable) -> Checkpoints:
    """Two checkpoints, of steps 10 and 20, in which the variable is 10 and 20."""
    made = Checkpoints(str(tmp_path), {"weights": variable})
    progress = Progress()
    for _ in range(2):
        progress.add([metrics(0.1 + 0.2)] * 10, seconds=1.0)
        variable.assign(tf.fill([3, 2], float(progress.step)))
        made.save(progress)
    made.wait()
    variable.assign(tf.zeros([3, 2]))
    return made


def test_the_newest_is_restored_to_the_bit(checkpoints: Checkpoints, variable: tf.Variable) -> None:
    progress = checkpoints.restore()
    assert progress.step == 20 and progress.seconds == 2.0
    assert progress.pending == [metrics(0.1 + 0.2)] * 20
    np.testing.assert_array_equal(variable, 20)


def test_none_is_a_new_run(tmp_path: Path, variable: tf.Variable) -> None:
    assert Checkpoints(str(tmp_path / "none"), {"weights": variable}).restore() == Progress()


def test_what_is_saved_is_the_moment_of_the_call(tmp_path: Path, variable: tf.Variable) -> None:
    checkpoints = Checkpoints(str(tmp_path / "moment"), {"weights": variable})
    progress = Progress(step=5)
    checkpoints.save(progress)
    variable.assign_add(tf.ones([3, 2]))
    progress.step = 6
    checkpoints.wait()
    assert checkpoints.restore().step == 5
    np.testing.assert_array_equal(variable, 0)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


DAMAGES = {
    "tensors cut": (".safetensors", cut),
    "tensors changed": (".safetensors", flip),
    "tensors removed": (".safetensors", Path.unlink),
    "tensors empty": (".safetensors", lambda path: path.write_bytes(b"")),
    "progress cut": (".json", cut),
    "progress removed": (".json", Path.unlink),
    "progress of another kind": (".json", lambda path: path.write_text("{}")),
    "progress no JSON object": (".json", lambda path: path.write_text("[1]")),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_falls_back_to_the_one_before(
    checkpoints: Checkpoints,
    variable: tf.Variable,
    tmp_path: Path,
    damage: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    suffix, apply = DAMAGES[damage]
    apply(tmp_path / f"step-00000020{suffix}")
    assert checkpoints.restore().step == 10
    np.testing.assert_array_equal(variable, 10)
    if damage != "progress removed":  # that one was never finished
        assert "checkpoint 20 is damaged" in caplog.text


def test_checkpoints_of_another_model_are_not_used(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    other = Checkpoints(str(tmp_path), {"other": tf.Variable(np.zeros([3, 2], np.float32))})
    assert other.restore().step == 0


def test_only_so_many_are_kept(tmp_path: Path, variable: tf.Variable) -> None:
    checkpoints = Checkpoints(str(tmp_path), {"weights": variable}, keep=2)
    for step in (1, 2, 3, 4):
        checkpoints.save(Progress(step=step))
    checkpoints.wait()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        f"step-0000000{step}{suffix}" for step in (3, 4) for suffix in (".json", ".safetensors")
    }


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def fail() -> None:
        def save_file(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("safetensors.numpy.save_file", save_file)

    return fail


def test_a_failed_write_is_told_and_leaves_the_old_ones(
    checkpoints: Checkpoints, failing: Callable[[], None]
) -> None:
    failing()
    checkpoints.save(Progress(step=30))
    with pytest.raises(Exception, match="disk is full"):
        checkpoints.wait()
    assert checkpoints.restore().step == 20
