"""Where the step runs: TensorFlow's strategy and the arithmetic of the layers."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import queue
import socket
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras

from clozeflow.errors import UserError
from clozeflow.training.config import Compiler, Distribution, Precision, TrainConfig

logger = logging.getLogger(__name__)

LOCAL_TPU = "local"
_SECONDS_FOR_ANSWER = 30.0


def make_strategy(distribution: Distribution, *, tpu_name: str = "") -> tf.distribute.Strategy:
    """The strategy for the devices of this machine, or for a TPU.

    Args:
        distribution: Which devices.
        tpu_name: A remote TPU's name or address; empty for one attached to this machine.

    Raises:
        UserError: The TPU does not answer.
    """
    if distribution is Distribution.AUTO:
        distribution = _find_distribution(tpu_name)
    if distribution is Distribution.TPU:
        return _tpu_strategy(tpu_name or LOCAL_TPU)
    if distribution is Distribution.MIRRORED:
        return tf.distribute.MirroredStrategy(_device_names())
    return tf.distribute.OneDeviceStrategy(_device_names()[0])


def _find_distribution(tpu_name: str) -> Distribution:
    has_tpu = Path("/dev/accel0").exists() or Path("/dev/vfio/0").exists()
    if tpu_name or "TPU_NAME" in os.environ or has_tpu:
        return Distribution.TPU
    several_gpus = len(tf.config.list_physical_devices("GPU")) > 1
    return Distribution.MIRRORED if several_gpus else Distribution.ONE_DEVICE


def _device_names() -> list[str]:
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    return [device.name for device in devices]


def _tpu_strategy(name: str) -> tf.distribute.Strategy:
    try:
        resolver = _answer_of(lambda: tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name))
        if name != LOCAL_TPU:
            _check_reachable(resolver.master())
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    except Exception as error:  # what is raised depends on the TPU's kind and on its client
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"TPU {name!r}",
            f"does not answer: {reason}",
            fix="Check that it runs and its name, or give --distribution auto without a TPU.",
        ) from error


def _answer_of(ask: Callable[[], Any]) -> Any:
    """The result of a call that may wait for ever, in a thread that is then left behind."""
    answer: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answer.put((ask(), None))
        except Exception as error:
            answer.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        result, error = answer.get(timeout=_SECONDS_FOR_ANSWER)
    except queue.Empty:
        raise TimeoutError(f"no answer within {_SECONDS_FOR_ANSWER:.0f} s") from None
    if error:
        raise error
    return result


def _check_reachable(master: str) -> None:
    """TensorFlow waits for ever for a worker that is not there; a connection shows that it is."""
    url = urllib.parse.urlsplit(master)
    with socket.create_connection((url.hostname or "", url.port or 8470), _SECONDS_FOR_ANSWER):
        pass


def uses_tpu(strategy: tf.distribute.Strategy) -> bool:
    """Whether the step runs on a TPU."""
    return isinstance(strategy, tf.distribute.TPUStrategy)


def on_tpu(config: TrainConfig) -> TrainConfig:
    """The settings as a TPU takes them: bfloat16 where nothing else is said, compiled by XLA."""
    precision = config.precision
    if precision is Precision.AUTO:
        precision = Precision.BFLOAT16
    return dataclasses.replace(config, precision=precision, compiler=Compiler.XLA)


@contextlib.contextmanager
def precision_policy(precision: Precision, strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Keras's policy for the layers made in the block; the one before comes back after it."""
    before = tf_keras.mixed_precision.global_policy()
    tf_keras.mixed_precision.set_global_policy(_policy_name(precision, strategy))
    try:
        yield
    finally:
        tf_keras.mixed_precision.set_global_policy(before)


def _policy_name(precision: Precision, strategy: tf.distribute.Strategy) -> str:
    if precision is Precision.AUTO:
        return "mixed_bfloat16" if uses_tpu(strategy) else "float32"
    return "mixed_bfloat16" if precision is Precision.BFLOAT16 else "float32"
