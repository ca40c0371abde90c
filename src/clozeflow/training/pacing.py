"""How many steps run before the host looks, and what is due when it does."""

from __future__ import annotations

from clozeflow.training.config import TrainConfig

_SECONDS_PER_CALL = 5.0
"""A call cannot be interrupted: it must end well within the 30 s that a spot machine is given."""


class Pacing:
    """The lengths of calls: as long as allowed, and never beyond the next event of any kind."""

    def __init__(self, config: TrainConfig) -> None:
        self._config = config
        self._profiled = config.profiled()
        # The first call is for compiling, and shows what a step costs after it.
        self._max_steps = 1

    def next_call(self, step: int) -> int:
        """How many steps to run after `step`."""
        config = self._config
        every = (
            config.log_every_steps,
            config.checkpoint_every_steps,
            config.validate_every_steps,
        )
        ends = [config.num_train_steps, *((step // n + 1) * n for n in every if n)]
        if self._profiled:
            marks = (self._profiled.start - 1, self._profiled.stop - 1)
            ends += [mark for mark in marks if mark > step]
        return min(config.steps_per_call, self._max_steps, min(ends) - step)

    def learn(self, num_steps: int, seconds: float) -> None:
        """Takes in how long a call took."""
        affordable = int(_SECONDS_PER_CALL * num_steps / seconds)
        self._max_steps = max(1, min(2 * self._max_steps, affordable))

    def is_due(self, step: int, every: int) -> bool:
        """Whether something that happens every so many steps, and at the end, is to happen."""
        return bool(every) and (step % every == 0 or step == self._config.num_train_steps)
