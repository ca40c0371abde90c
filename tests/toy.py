"""A stage small enough to count how often it works: it writes one file."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from clozeflow import registry, stages, storage
from clozeflow.artifacts import ArtifactType
from clozeflow.config import StageConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class ToyConfig(StageConfig):
    """Settings of the toy."""

    DOES_NOT_SHAPE_RESULT: ClassVar[frozenset[str]] = frozenset({"num_workers"})
    size: int = 3
    """How many letters."""
    num_workers: int = 1
    """Nothing."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ToyStage(registry.Stage):
    """Its `run` is the function given; a stage of clozeflow looks its own up by package."""

    run: Callable = None  # type: ignore[assignment]

    def function(self, name: str) -> Callable:
        """Only `run`."""
        assert name == "run"
        return self.run


def write_letters(config, inputs, output):
    """The toy's work."""
    before = "".join(storage.read_text(a.path("letters")) for a in inputs.values())
    storage.write_text(storage.join(output, "letters"), before + "x" * config.size)
    storage.write_text(storage.join(output, "report.html"), "<p>report</p>")
    return stages.Outcome(
        properties={"size": config.size},
        metrics={"mean": 0.5},
        parameters={"blessed": True},
    )


def toy_stage(run=write_letters, **inputs: ArtifactType) -> ToyStage:
    """A stage that gives a Corpus, or with `corpus=…` one that reads it and gives Shards."""
    return ToyStage(
        name="second" if inputs else "first",
        package="toy",
        config=ToyConfig,
        inputs=inputs,
        output_name="shards" if inputs else "corpus",
        output_type=ArtifactType.SHARDS if inputs else ArtifactType.CORPUS,
        run=run,
    )


def letters(folder: Path) -> str:
    """What the toy wrote."""
    return (Path(folder) / "letters").read_text()
