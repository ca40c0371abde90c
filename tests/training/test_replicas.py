"""The number of devices changes nothing: masks, batches and dropout are the global batch's."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from clozeflow.artifacts import Artifact
from tests.training.replicas import NUM_STEPS


def test_one_two_and_four_devices_have_the_same_losses(
    shards: Artifact, tokenizer: Artifact
) -> None:
    command = [sys.executable, "-m", "tests.training.replicas", shards.uri, tokenizer.uri]
    root = Path(__file__).parents[2]
    output = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    losses = json.loads(output.splitlines()[-1])
    assert len(losses["1"]) == NUM_STEPS
    for num_devices in ("2", "4"):
        np.testing.assert_allclose(losses[num_devices], losses["1"], atol=1e-5)
