"""The publish component: a blessed model to a Hub repository, a folder, the Vertex AI registry."""

from kfp import dsl

from clozeflow.publishing.config import PublishConfig
from components import images
from components.artifacts import Evaluation, MaskedLM, Publication
from components.documentation import documented_by


@dsl.container_component
@documented_by(PublishConfig)
def publish(
    model: dsl.Input[MaskedLM],
    evaluation: dsl.Input[Evaluation],
    publication: dsl.Output[Publication],
    publish_to: str = "",
    visibility: str = "private",
    token_secret: str = "",
    license: str = "",
    serving_image: str = "",
    usd_per_hour: float = 0.0,
    force: bool = False,
) -> dsl.ContainerSpec:
    """Publishes a model that its evaluation blessed, with a card made from the manifests.

    Args:
        model: The model.
        evaluation: Its evaluation.

    Returns:
        publication: Where the model is now, under which revision, and every file's hash.
    """
    return dsl.ContainerSpec(image=images.CPU, command=images.COMMAND, args=["publish", "{{$}}"])
