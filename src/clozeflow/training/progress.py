"""How far a run is: what a checkpoint holds beside the weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from clozeflow.training.config import TrainConfig
from clozeflow.training.step import StepMetrics


class Validation(NamedTuple):
    """What the model knew of the validation split's masked tokens at a step."""

    step: int
    loss: float
    """Nats."""
    masked_accuracy: float


@dataclasses.dataclass(kw_only=True)
class Progress:
    """The run's own account of itself; a resumed run goes on with it as if never stopped."""

    step: int = 0
    """Optimizer steps done."""
    seconds: float = 0.0
    """Time spent in training, lost attempts left out."""
    rows: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """The lines of `training.jsonl`."""
    pending: list[StepMetrics] = dataclasses.field(default_factory=list)
    """Steps since the last line."""
    pending_seconds: float = 0.0
    validations: list[Validation] = dataclasses.field(default_factory=list)
    account: dict[str, float] = dataclasses.field(default_factory=dict)
    """Seconds by what they went into, over all attempts: see `account`."""

    @property
    def best(self) -> Validation | None:
        """The validation with the lowest loss so far, the first of equals."""
        return min(self.validations, key=lambda one: one.loss, default=None)

    def is_done(self, config: TrainConfig) -> bool:
        """Whether the last step is done, or validation has not become better for too long."""
        patience, best = config.early_stopping_patience, self.best
        if patience and best:
            num_worse = len(self.validations) - 1 - self.validations.index(best)
            if num_worse >= patience:
                return True
        return self.step >= config.num_train_steps

    def add(self, metrics: Sequence[StepMetrics], *, seconds: float) -> None:
        """Takes in the steps of one call."""
        self.step += len(metrics)
        self.seconds += seconds
        self.pending += metrics
        self.pending_seconds += seconds

    def close_row(self, *, tokens_per_step: int, share_of_peak: float = 0.0) -> dict[str, Any]:
        """A line over the steps since the last one: means, and the last step's rate.

        Args:
            tokens_per_step: Padding included.
            share_of_peak: Of the devices' peak, if known, that one step a second would be.
        """
        count = len(self.pending)
        steps_per_second = count / max(self.pending_seconds, 1e-9)
        row = {
            "step": self.step,
            "loss": sum(m.loss for m in self.pending) / count,
            "masked_accuracy": sum(m.masked_accuracy for m in self.pending) / count,
            "gradient_norm": sum(m.gradient_norm for m in self.pending) / count,
            "learning_rate": self.pending[-1].learning_rate,
            "tokens_per_second": round(tokens_per_step * steps_per_second),
            "seconds": round(self.seconds, 3),
        }
        if share_of_peak:
            row["mfu"] = share_of_peak * steps_per_second
        self.rows.append(row)
        self.pending, self.pending_seconds = [], 0.0
        return row

    def to_dict(self) -> dict[str, Any]:
        """JSON-serialisable values; floats keep every bit."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Self:
        """The reverse of `to_dict`."""
        pending = [StepMetrics(*metrics) for metrics in value["pending"]]
        validations = [Validation(*one) for one in value["validations"]]
        return cls(**{**value, "pending": pending, "validations": validations})
