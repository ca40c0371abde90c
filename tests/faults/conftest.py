"""The calm run that the fault tests compare with, made once for all their processes."""

import fcntl
import os
from pathlib import Path

import pytest

from tests.faults.campaign import calm_run
from tests.faults.kills import Calm


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Calm:
    """Every stage's artifact, and how long it took.

    `FAULTS_CALM` names a folder to keep it in from one run of the tests to the next.
    """
    if kept := os.environ.get("FAULTS_CALM"):
        return calm_run(Path(kept))
    base = tmp_path_factory.getbasetemp()
    shared = base if worker_id == "master" else base.parent
    with Path(shared, "calm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return calm_run(shared / "faults")
