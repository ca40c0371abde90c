"""The continue pipeline: a model and its tokenizer taken on to a new corpus.

1. corpus: reads the sources; cleans, deduplicates and splits the documents.
2. tokenizer: an importer node that names the folder of the model's own tokenizer.
3. shard: tokenizes the corpus and packs it into examples of one length.
4. preflight: where a TPU slice is to train, has the step compiled for it, and ends the run where it
   does not fit.
5. train: goes on from the model's weights; on Vertex AI this is a custom job on a TPU slice.
6. evaluate: asks the new model and the old one the same questions about the new text.
7. publish: sends a blessed model to where it is asked for, with a model card.
8. summary: says how the run ended and what it made, whatever its end.
"""

from kfp.dsl.base_component import BaseComponent

from clozeflow.corpus.config import CorpusConfig
from clozeflow.evaluation.config import EvaluateConfig
from clozeflow.preflight.config import PreflightConfig
from clozeflow.publishing.config import PublishConfig
from clozeflow.shards.config import ShardConfig
from clozeflow.training.config import TrainConfig
from components.artifacts import MaskedLM, Tokenizer
from components.corpus.component import corpus
from components.evaluate.component import evaluate
from components.shard.component import shard
from pipelines.graph import HERE, Variant, imported, make_pipeline, with_parameters_of
from pipelines.pretrain import pretrain


def continue_pipeline(variant: Variant = HERE) -> BaseComponent:
    """The pipeline, for the place that the variant describes."""
    return make_pipeline(
        continue_training,
        variant,
        *(CorpusConfig, ShardConfig, TrainConfig, PreflightConfig, EvaluateConfig, PublishConfig),
        name="continue",
        display_name="Take a masked language model on to a new corpus",
    )


@with_parameters_of(
    pretrain, leave_out=("algorithm", "vocab_size", "preset", "model_config", "init_from")
)
def continue_training(
    variant: Variant, init_from: str, tokenizer_uri: str, **values: object
) -> None:
    """Trains a model further on new text and says whether it is better there than before.

    Args:
        init_from: Folder of the model to go on from, an artifact of clozeflow.
        tokenizer_uri: Folder of the tokenizer that it was trained with.
        seed: Chooses the order of examples, the masks and the questions.
        masking_rate: The share of tokens that is masked, in training and evaluation (0 to 1).
        require: Thresholds such as `loss<baseline`; where all hold the model is blessed.
    """
    values = {**values, "init_from": init_from}
    task = variant.task
    with variant.summed_up():
        text = task("1 Corpus", corpus, values, leave_out=("require",)).outputs["corpus"]
        pieces = imported(tokenizer_uri, Tokenizer, "2 Tokenizer")
        before = imported(init_from, MaskedLM, "2 Model")
        rows = task("3 Shards", shard, values, corpus=text, tokenizer=pieces).outputs["shards"]
        trained = variant.train_after_preflight(values, first=4, shards=rows, tokenizer=pieces)
        model = trained.outputs["model"]
        evaluated = task(
            "6 Evaluation", evaluate, values, model=model, shards=rows, baseline=before
        )
        variant.publish_if_blessed("7 Publication", values, evaluated, model=model)
