"""TensorFlow's profiler over some of a run's steps, for TensorBoard."""

from __future__ import annotations

import logging

import tensorflow as tf

logger = logging.getLogger(__name__)


class Profiler:
    """Starts and stops where it should.

    Args:
        steps: Counted from 1; empty for never.
        folder: TensorBoard's.
    """

    def __init__(self, steps: range, folder: str) -> None:
        self._steps, self._folder = steps, folder
        self._is_running = False

    def at(self, step: int) -> None:
        """Called between steps, after `step` of them."""
        if self._is_running and step + 1 not in self._steps:
            self.stop()
        elif not self._is_running and step + 1 in self._steps:
            tf.profiler.experimental.start(self._folder)
            self._is_running = True

    def stop(self) -> None:
        """Writes what was recorded, if anything was."""
        if self._is_running:
            tf.profiler.experimental.stop()
            self._is_running = False
            logger.info("profile of steps %d to %d: %s", *self._bounds(), self._folder)

    def _bounds(self) -> tuple[int, int]:
        return self._steps[0], self._steps[-1]
