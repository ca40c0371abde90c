"""Trains on one, two and four logical devices and prints the losses as JSON.

In a process of its own: devices are divided before TensorFlow starts.
"""

import json
import os
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tensorflow as tf

from clozeflow import artifacts
from clozeflow.artifacts import ArtifactType
from clozeflow.training import build, data
from clozeflow.training.config import TrainConfig
from clozeflow.training.masking import MaskingRule

NUM_STEPS = 50
CONFIG = TrainConfig(num_train_steps=NUM_STEPS, warmup_steps=5, global_batch_size=8)


def main(shards_folder: str, tokenizer_folder: str) -> None:
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 4)
    shards = artifacts.open_artifact(shards_folder, ArtifactType.SHARDS, name="shards")
    tokenizer = build.load_tokenizer(tokenizer_folder)
    rule = MaskingRule.for_tokenizer(
        tokenizer, rate=0.15, seq_len=shards.manifest.properties["seq_len"]
    )
    losses = {}
    for num_devices in (1, 2, 4):
        names = [f"CPU:{index}" for index in range(num_devices)]
        # The default, collectives, cannot have groups of several sizes in one process.
        reduction = tf.distribute.ReductionToOneDevice()
        strategy = tf.distribute.MirroredStrategy(names, cross_device_ops=reduction)
        step = build.make_step(CONFIG, shards, tokenizer, strategy)
        batches = data.training_batches(
            strategy, shards, rule=rule, global_batch_size=8, seed=0, start_step=0
        )
        metrics = step.run(batches, first_step=0, num_steps=NUM_STEPS)
        losses[num_devices] = [one.loss for one in metrics]
    sys.stdout.write(json.dumps(losses) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
