"""Every component and pipeline, by name."""

from collections.abc import Callable, Mapping
from pathlib import Path

from kfp import components as kfp_components
from kfp.dsl.base_component import BaseComponent

from clozeflow.errors import UserError
from components.corpus.component import corpus
from components.evaluate.component import evaluate
from components.predict.component import predict
from components.preflight.component import preflight
from components.publish.component import publish
from components.shard.component import shard
from components.summary.component import summary
from components.tokenizer.component import tokenizer
from components.train.component import train
from pipelines.continue_ import continue_pipeline
from pipelines.evaluate import evaluate_pipeline
from pipelines.graph import HERE, Variant
from pipelines.pretrain import pretrain_pipeline

COMPONENTS: Mapping[str, BaseComponent] = {
    component.name: component
    for component in (
        *(corpus, tokenizer, shard, preflight, train, evaluate, publish, predict, summary),
    )
}

PIPELINES: Mapping[str, Callable[[Variant], BaseComponent]] = {
    "pretrain": pretrain_pipeline,
    "evaluate": evaluate_pipeline,
    "continue": continue_pipeline,
}

PRESETS: Mapping[str, Mapping[str, Mapping[str, object]]] = {
    "pretrain": {
        # Minutes on two cores, and right at least 1.7 times as often as always guessing the most
        # frequent token. Small batches learn more from the same number of tokens; no text comes
        # twice, so that dropout would only slow it down.
        "demo": {
            "source": ["sample"],
            "vocab_size": 8192,
            "seq_len": 128,
            "preset": "tiny",
            "num_train_steps": 800,
            "global_batch_size": 16,
            "peak_learning_rate": 3e-3,
            "dropout_rate": 0.0,
            "prompts": [
                "My fellow <mask>,",
                "The state of our union is <mask>.",
                "God bless the United States of <mask>.",
                "We must create new <mask> for our people.",
            ],
        },
    },
}
"""Settings of pipelines under a name, for `python -m pipelines run --preset NAME`."""


def find_pipeline(name: str, variant: Variant = HERE) -> BaseComponent:
    """A pipeline by its name, or from a compiled YAML file."""
    if name in PIPELINES:
        return PIPELINES[name](variant)
    if name.endswith((".yaml", ".yml")):
        if not Path(name).is_file():
            raise UserError(name, "there is no such file", fix="Check the path.")
        return _read_pipeline(name)
    raise UserError(
        "pipeline",
        "there is no such pipeline",
        got=name,
        expected=", ".join(PIPELINES),
        fix="Give a name, or a compiled YAML file.",
    )


def _read_pipeline(path: str) -> BaseComponent:
    try:
        return kfp_components.load_component_from_file(path)
    except Exception as error:  # whatever KFP's reader stumbles over
        raise UserError(
            path,
            "is no compiled pipeline",
            got=f"{type(error).__name__}: {' '.join(str(error).split())}",
            fix="Give what `python compile.py` or KFP's compiler writes.",
        ) from error


def find_preset(pipeline: str, name: str | None) -> dict[str, object]:
    """The settings of a preset; none where no preset is asked for."""
    presets = PRESETS.get(pipeline, {})
    if name is None:
        return {}
    if name not in presets:
        raise UserError(
            "--preset",
            f"{pipeline} has no such preset",
            got=name,
            expected=", ".join(presets) or None,
            fix="Give another, or leave it out.",
        )
    return dict(presets[name])
