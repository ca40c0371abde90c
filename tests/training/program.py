"""Trains in a process of its own, for tests that kill it: `python -m tests.training.program …`.

The stage's own function is called, so that its work folder, with the checkpoints, stays.
"""

import sys
from pathlib import Path

from clozeflow import artifacts
from clozeflow.artifacts import ArtifactType
from clozeflow.training.config import TrainConfig

CONFIG = TrainConfig(
    num_train_steps=72,
    warmup_steps=8,
    global_batch_size=16,
    log_every_steps=7,
    checkpoint_every_steps=12,
    steps_per_call=3,
)


def main(shards: str, tokenizer: str, output: Path) -> None:
    from clozeflow.training.stage import run

    inputs = {
        "shards": artifacts.open_artifact(shards, ArtifactType.SHARDS, name="shards"),
        "tokenizer": artifacts.open_artifact(tokenizer, ArtifactType.TOKENIZER, name="tokenizer"),
    }
    run(CONFIG, inputs, str(output))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
