"""Every stage's interface, by name: settings, inputs, output. The work is imported when it runs."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from typing import Any

from clozeflow.artifacts import ArtifactType
from clozeflow.config import StageConfig
from clozeflow.corpus.config import CorpusConfig
from clozeflow.evaluation.config import EvaluateConfig
from clozeflow.prediction.config import PredictConfig
from clozeflow.preflight.config import PreflightConfig
from clozeflow.publishing.config import PublishConfig
from clozeflow.shards.config import ShardConfig
from clozeflow.tokenizer.config import TokenizerConfig
from clozeflow.training.config import TrainConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage's interface. The work itself is imported only when it runs."""

    name: str
    config: type[StageConfig]
    output_name: str
    output_type: ArtifactType
    inputs: Mapping[str, ArtifactType] = dataclasses.field(default_factory=dict)
    optional_inputs: Mapping[str, ArtifactType] = dataclasses.field(default_factory=dict)
    """Inputs that may be left out."""
    free_inputs: frozenset[str] = frozenset()
    """Inputs that need not be those that another input was made with: the stage checks itself."""
    has_sources: bool = False
    """Reads data from outside: `<package>.stage.source_refs(config)` names and hashes it."""
    has_checks: bool = False
    """`<package>.checks.check_inputs(config, inputs, output)` refuses what can be told from
    settings and manifests, before anything is made and anything heavy is imported."""
    acts_outside: bool = False
    """Changes something besides its output: is never taken from the cache."""
    refuses_other_settings: bool = False
    """Unfinished work with other settings is refused, or gone on with where `config.fork` says so;
    that of other stages is thrown away."""
    package: str
    command: str = ""
    """Its name on the command line, where that is not the stage's."""

    def function(self, name: str, *, module: str = "stage") -> Callable[..., Any]:
        """A function of the stage's module, or of another of its package."""
        return getattr(importlib.import_module(f"clozeflow.{self.package}.{module}"), name)


STAGES: Mapping[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage(
            name="corpus",
            package="corpus",
            has_checks=True,
            config=CorpusConfig,
            output_name="corpus",
            output_type=ArtifactType.CORPUS,
            has_sources=True,
        ),
        Stage(
            name="tokenizer",
            package="tokenizer",
            config=TokenizerConfig,
            inputs={"corpus": ArtifactType.CORPUS},
            has_sources=True,
            output_name="tokenizer",
            output_type=ArtifactType.TOKENIZER,
        ),
        Stage(
            name="shard",
            package="shards",
            config=ShardConfig,
            inputs={"tokenizer": ArtifactType.TOKENIZER},
            optional_inputs={"corpus": ArtifactType.CORPUS},
            free_inputs=frozenset({"corpus"}),  # a tokenizer serves more than its own corpus
            has_sources=True,
            output_name="shards",
            output_type=ArtifactType.SHARDS,
        ),
        Stage(
            name="preflight",
            package="preflight",
            config=PreflightConfig,
            optional_inputs={"shards": ArtifactType.SHARDS, "tokenizer": ArtifactType.TOKENIZER},
            has_sources=True,
            output_name="report",
            output_type=ArtifactType.PREFLIGHT_REPORT,
        ),
        Stage(
            name="train",
            package="training",
            config=TrainConfig,
            has_sources=True,
            refuses_other_settings=True,  # days of work may lie there
            inputs={"shards": ArtifactType.SHARDS, "tokenizer": ArtifactType.TOKENIZER},
            output_name="model",
            output_type=ArtifactType.MASKED_LM,
        ),
        Stage(
            name="evaluate",
            package="evaluation",
            has_checks=True,
            config=EvaluateConfig,
            inputs={"model": ArtifactType.MASKED_LM, "shards": ArtifactType.SHARDS},
            optional_inputs={"baseline": ArtifactType.MASKED_LM},
            free_inputs=frozenset({"shards"}),  # any text may be asked about
            output_name="evaluation",
            output_type=ArtifactType.EVALUATION,
        ),
        Stage(
            name="predict",
            command="predict-dataset",  # `clozeflow predict` answers texts and single files
            package="prediction",
            config=PredictConfig,
            inputs={"model": ArtifactType.MASKED_LM, "dataset": ArtifactType.DATASET},
            output_name="predictions",
            output_type=ArtifactType.PREDICTIONS,
        ),
        Stage(
            name="publish",
            package="publishing",
            has_checks=True,
            config=PublishConfig,
            inputs={"model": ArtifactType.MASKED_LM, "evaluation": ArtifactType.EVALUATION},
            acts_outside=True,
            output_name="publication",
            output_type=ArtifactType.PUBLICATION,
        ),
    )
}
