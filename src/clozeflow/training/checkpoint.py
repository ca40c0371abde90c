"""Checkpoints: weights, optimizer state and progress, on disk whole or not at all.

A checkpoint is two files: `step-00000100.safetensors` with every tensor, and then
`step-00000100.json` with the progress and the first one's hash. One without its second file was
never finished; one whose hash differs is damaged and the one before it is used.
"""

from __future__ import annotations

import concurrent.futures
import json
import logging
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import tensorflow as tf

from clozeflow import artifacts, storage
from clozeflow.errors import UserError
from clozeflow.training.progress import Progress

logger = logging.getLogger(__name__)


class Checkpoints:
    """The checkpoints of one run.

    Args:
        folder: Where they are, local or remote.
        variables: All that must be restored, by a name that is the same in every process.
        keep: How many are kept; more than one, so that a damaged one can be done without.
    """

    def __init__(self, folder: str, variables: Mapping[str, tf.Variable], *, keep: int = 2) -> None:
        self._folder = folder
        self._variables = variables
        self._keep = keep
        self._pool = concurrent.futures.ThreadPoolExecutor(1, "clozeflow-checkpoint")
        self._writing: concurrent.futures.Future[None] | None = None

    def save(self, progress: Progress) -> None:
        """Copies the tensors now and writes them in the background.

        Raises:
            UserError: The one before could not be written.
        """
        self.wait()
        tensors = {name: np.array(v.numpy()) for name, v in self._variables.items()}
        self._writing = self._pool.submit(self._write, tensors, progress.to_dict())

    def wait(self) -> None:
        """Returns when the last checkpoint is on disk; its errors are raised here."""
        if self._writing:
            self._writing.result()
            self._writing = None

    def restore(self) -> Progress:
        """Loads the newest checkpoint that is whole; a new run's progress if there is none."""
        for step in reversed(self._steps()):
            try:
                progress = self.load(step)
            except (UserError, ValueError, KeyError, TypeError, OSError) as error:
                logger.warning("checkpoint %d is damaged and not used: %s", step, error)
                continue
            logger.info("going on from step %d", step)
            return progress
        return Progress()

    def _write(self, tensors: dict[str, Any], progress: dict[str, Any]) -> None:
        step = progress["step"]
        with storage.atomic_path(self._path(step, ".safetensors")) as path:
            safetensors.numpy.save_file(tensors, path)
            num_bytes, sha256 = artifacts.hash_file(str(path))
        record = {"num_bytes": num_bytes, "sha256": sha256, "progress": progress}
        storage.write_text(self._path(step, ".json"), json.dumps(record))
        # What is beyond this step is damaged, and will be written anew.
        for old in [one for one in self._steps() if one <= step][: -self._keep]:
            storage.remove_file(self._path(old, ".json"))
            storage.remove_file(self._path(old, ".safetensors"))

    def load(self, step: int) -> Progress:
        """Loads the checkpoint of a step.

        Raises:
            Exception: Of many kinds, where it is not there or damaged.
        """
        record = json.loads(storage.read_text(self._path(step, ".json")))
        progress = Progress.from_dict(record["progress"])
        with tempfile.TemporaryDirectory(prefix="clozeflow-") as folder:
            path = _local_copy(self._path(step, ".safetensors"), folder)
            found = artifacts.hash_file(str(path))
            if found != (record["num_bytes"], record["sha256"]):
                raise ValueError(f"{path.name} is not as it was written")
            tensors = safetensors.numpy.load_file(path)
        if tensors.keys() != self._variables.keys():
            raise ValueError("it holds other variables than the model has")
        for name, variable in self._variables.items():
            variable.assign(tensors[name])
        return progress

    def _steps(self) -> list[int]:
        """The steps of the finished checkpoints, ascending."""
        names = [Path(name) for name in storage.list_files(self._folder) if "/" not in name]
        return sorted(
            int(name.stem.removeprefix("step-")) for name in names if name.suffix == ".json"
        )

    def _path(self, step: int, suffix: str) -> str:
        return storage.join(self._folder, f"step-{step:08d}{suffix}")


def _local_copy(location: str, folder: str) -> Path:
    if not storage.is_remote(location):
        return storage.local_path(location)
    path = Path(folder, location.rsplit("/", 1)[-1])
    with storage.open_read(location) as source, path.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 24)
    return path


def variables_by_name(model: Any, optimizer: Any) -> dict[str, tf.Variable]:
    """A model's and its optimizer's variables, by names that do not depend on the process."""
    variables = weights_by_name(model)
    trained = [_name(variable) for variable in model.trainable_variables]
    for slot, values in optimizer.slots.items():
        variables |= {f"{slot}/{name}": v for name, v in zip(trained, values, strict=True)}
    return variables


def weights_by_name(model: Any) -> dict[str, tf.Variable]:
    """A model's variables, by such names."""
    variables = {_name(variable): variable for variable in model.weights}
    assert len(variables) == len(model.weights), "two variables have one name"
    return variables


def _name(variable: tf.Variable) -> str:
    # Level zero of a Keras name counts the models made before in this process.
    return variable.name.split("/", 1)[-1]
