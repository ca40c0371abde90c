"""How far a run is: what a checkpoint holds beside the weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

from clozeflow.training.step import StepMetrics


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

    def add(self, metrics: Sequence[StepMetrics], *, seconds: float) -> None:
        """Takes in the steps of one call."""
        self.step += len(metrics)
        self.seconds += seconds
        self.pending += metrics
        self.pending_seconds += seconds

    def close_row(self, *, tokens_per_step: int) -> dict[str, Any]:
        """A line over the steps since the last one: means, and the last step's rate."""
        count = len(self.pending)
        row = {
            "step": self.step,
            "loss": sum(m.loss for m in self.pending) / count,
            "masked_accuracy": sum(m.masked_accuracy for m in self.pending) / count,
            "gradient_norm": sum(m.gradient_norm for m in self.pending) / count,
            "learning_rate": self.pending[-1].learning_rate,
            "tokens_per_second": round(count * tokens_per_step / max(self.pending_seconds, 1e-9)),
            "seconds": round(self.seconds, 3),
        }
        self.rows.append(row)
        self.pending, self.pending_seconds = [], 0.0
        return row

    def to_dict(self) -> dict[str, Any]:
        """JSON-serialisable values; floats keep every bit."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Self:
        """The reverse of `to_dict`."""
        return cls(**{**value, "pending": [StepMetrics(*metrics) for metrics in value["pending"]]})
