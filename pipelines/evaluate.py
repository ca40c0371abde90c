"""The evaluate pipeline: a model that is there already, asked about shards that are there already.

1. model, shards: importer nodes that name the folders of finished artifacts.
2. evaluate: asks the model, and the baseline too where one is given.
3. publish: sends a blessed model to where it is asked for, with a model card.
4. summary: says how the run ended and how good the model is.
"""

import dataclasses

from kfp import dsl
from kfp.dsl.base_component import BaseComponent

from clozeflow.evaluation.config import EvaluateConfig
from clozeflow.publishing.config import PublishConfig
from components.artifacts import MaskedLM, Shards
from components.evaluate.component import evaluate
from pipelines.graph import HERE, Variant, imported, make_pipeline


def evaluate_pipeline(variant: Variant = HERE) -> BaseComponent:
    """The pipeline; nothing in it depends on where training runs."""
    anywhere = dataclasses.replace(variant, job_parameters={}, job_descriptions={})
    return make_pipeline(
        evaluate_model,
        anywhere,
        EvaluateConfig,
        PublishConfig,
        name="evaluate",
        display_name="Evaluate a masked language model",
    )


def evaluate_model(
    variant: Variant,
    model_uri: str,
    shards_uri: str,
    baseline_uri: str = "",
    split: str = "validation",
    masking_rate: float = 0.15,
    seed: int = 0,
    prompts: list = [],
    require: list = [],
    publish_to: str = "",
    visibility: str = "private",
    token_secret: str = "",
    license: str = "",
    serving_image: str = "",
) -> None:
    """Says how good a model is on shards, and whether it is better than another.

    Args:
        model_uri: Folder of the model.
        shards_uri: Folder of the shards.
        baseline_uri: Folder of a model to compare with; empty for none.
    """
    values = dict(locals())
    with variant.summed_up():
        model = imported(model_uri, MaskedLM, "1 Model")
        shards = imported(shards_uri, Shards, "1 Shards")
        with dsl.If(baseline_uri == "", name="No baseline"):
            evaluated = variant.task("2 Evaluation", evaluate, values, model=model, shards=shards)
            variant.publish_if_blessed("3 Publication", values, evaluated, model=model)
        with dsl.Else(name="Baseline"):
            baseline = imported(baseline_uri, MaskedLM, "1 Baseline")
            inputs = {"model": model, "shards": shards, "baseline": baseline}
            evaluated = variant.task(
                "2 Evaluation against the baseline", evaluate, values, **inputs
            )
            variant.publish_if_blessed("3 Publication", values, evaluated, model=model)
