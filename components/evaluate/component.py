"""The evaluate component: a model and held-out shards to figures, answers and a verdict."""

from kfp import dsl

from clozeflow.evaluation.config import EvaluateConfig
from components import images
from components.artifacts import Evaluation, MaskedLM, Shards
from components.documentation import documented_by


@dsl.container_component
@documented_by(EvaluateConfig)
def evaluate(
    model: dsl.Input[MaskedLM],
    shards: dsl.Input[Shards],
    evaluation: dsl.Output[Evaluation],
    metrics: dsl.Output[dsl.Metrics],
    confidence: dsl.Output[dsl.ClassificationMetrics],
    report: dsl.Output[dsl.HTML],
    verdict: dsl.Output[dsl.Markdown],
    blessed: dsl.OutputPath(bool),  # type: ignore[valid-type]
    baseline: dsl.Input[MaskedLM] = None,
    split: str = "validation",
    masking_rate: float = 0.15,
    shown: str = "training",
    seed: int = 0,
    batch_size: int = 64,
    prompts: list = [],
    top_k: int = 5,
    require: list = [],
) -> dsl.ContainerSpec:
    """Asks a model for masked tokens of held-out text and says how often it is right.

    Args:
        model: The model.
        shards: The examples that the questions are made from.
        baseline: A model to compare with, asked the same questions.

    Returns:
        evaluation: Figures, answers and the report.
        metrics: The figures.
        confidence: Whether its confidence tells the model's right answers from its wrong ones.
        report: The report.
        verdict: The verdict and the figures in short.
        blessed: Whether every threshold of `require` holds.
    """
    return dsl.ContainerSpec(image=images.CPU, command=images.COMMAND, args=["evaluate", "{{$}}"])
