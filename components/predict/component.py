"""The predict component: a model and files of texts to answers or vectors."""

from kfp import dsl

from clozeflow.prediction.config import PredictConfig
from components import images
from components.artifacts import MaskedLM, Predictions
from components.documentation import documented_by


@dsl.container_component
@documented_by(PredictConfig)
def predict(
    model: dsl.Input[MaskedLM],
    dataset: dsl.Input[dsl.Dataset],
    predictions: dsl.Output[Predictions],
    produce: str = "answers",
    text_field: str = "text",
    top_k: int = 5,
    targets: list = [],
    output_format: str = "parquet",
    num_workers: int = 1,
) -> dsl.ContainerSpec:
    """Answers the masks in all texts of a data set, or turns its texts into vectors.

    Args:
        model: The model.
        dataset: Texts (.txt, .jsonl, .parquet), a file or a folder, or a Corpus; or Shards.

    Returns:
        predictions: The rows, with their answers or vectors.
    """
    return dsl.ContainerSpec(image=images.CPU, command=images.COMMAND, args=["predict", "{{$}}"])
