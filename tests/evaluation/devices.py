"""Evaluates a model where TensorFlow sees several devices.

In a process of its own: devices are divided before TensorFlow starts.
"""

import sys

import clozeflow.training  # noqa: F401  sets what TensorFlow must find before it is imported
from clozeflow.registry import STAGES
from clozeflow.stages import run_stage


def main(num_devices: str, model: str, shards: str, output: str) -> None:
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    devices = [tf.config.LogicalDeviceConfiguration()] * int(num_devices)
    tf.config.set_logical_device_configuration(cpu, devices)
    stage = STAGES["evaluate"]
    inputs = {"model": model, "shards": shards}
    run_stage(stage, stage.config(), inputs=inputs, output=output)
    assert len(tf.config.list_logical_devices("CPU")) == int(num_devices)


if __name__ == "__main__":
    main(*sys.argv[1:])
