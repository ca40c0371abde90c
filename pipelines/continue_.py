"""The continue pipeline: a model and its tokenizer taken on to a new corpus.

1. corpus: reads the sources; cleans, deduplicates and splits the documents.
2. tokenizer: an importer node that names the folder of the model's own tokenizer.
3. shard: tokenizes the corpus and packs it into examples of one length.
4. train: goes on from the model's weights; on Vertex AI this is a custom job on a TPU slice.
5. evaluate: asks the new model and the old one the same questions about the new text.
6. publish: sends a blessed model to where it is asked for, with a model card.
7. summary: says how the run ended and what it made, whatever its end.
"""

from kfp.dsl.base_component import BaseComponent

from clozeflow.corpus.config import CorpusConfig
from clozeflow.evaluation.config import EvaluateConfig
from clozeflow.publishing.config import PublishConfig
from clozeflow.shards.config import ShardConfig
from clozeflow.training.config import TrainConfig
from components.artifacts import MaskedLM, Tokenizer
from components.corpus.component import corpus
from components.evaluate.component import evaluate
from components.shard.component import shard
from pipelines.graph import HERE, Variant, imported, make_pipeline


def continue_pipeline(variant: Variant = HERE) -> BaseComponent:
    """The pipeline, for the place that the variant describes."""
    return make_pipeline(
        continue_training,
        variant,
        *(CorpusConfig, ShardConfig, TrainConfig, EvaluateConfig, PublishConfig),
        name="continue",
        display_name="Take a masked language model on to a new corpus",
    )


def continue_training(
    variant: Variant,
    init_from: str,
    tokenizer_uri: str,
    source: list = ["sample"],
    validation_source: list = [],
    test_source: list = [],
    documents: str = "line",
    text_field: str = "text",
    languages: list = [],
    near_duplicates: str = "report",
    validation_fraction: float = 0.02,
    test_fraction: float = 0.02,
    seq_len: int = 128,
    num_train_steps: int = 0,
    num_train_epochs: float = 0.0,
    num_train_tokens: int = 0,
    global_batch_size: int = 64,
    gradient_accumulation_steps: int = 1,
    optimizer: str = "adamw",
    schedule: str = "linear",
    peak_learning_rate: float = 2e-3,
    warmup_steps: int = -1,
    masking_rate: float = 0.15,
    masking_unit: str = "token",
    recompute: str = "none",
    dropout_rate: float = 0.1,
    seed: int = 0,
    checkpoint_every_steps: int = 100,
    prompts: list = [],
    require: list = [],
    publish_to: str = "",
    visibility: str = "private",
    token_secret: str = "",
    license: str = "",
    serving_image: str = "",
    **job: str,
) -> None:
    """Trains a model further on new text and says whether it is better there than before.

    Args:
        init_from: Folder of the model to go on from, an artifact of clozeflow.
        tokenizer_uri: Folder of the tokenizer that it was trained with.
        seed: Chooses the order of examples, the masks and the questions.
        masking_rate: The share of tokens that is masked, in training and evaluation (0 to 1).
        require: Thresholds such as `loss<baseline`; where all hold the model is blessed.
    """
    values = {**locals(), **job}
    task = variant.task
    with variant.summed_up():
        text = task("1 Corpus", corpus, values, leave_out=("require",)).outputs["corpus"]
        pieces = imported(tokenizer_uri, Tokenizer, "2 Tokenizer")
        before = imported(init_from, MaskedLM, "2 Model")
        rows = task("3 Shards", shard, values, corpus=text, tokenizer=pieces).outputs["shards"]
        trained = task("4 Training", variant.train, values, shards=rows, tokenizer=pieces)
        model = trained.outputs["model"]
        evaluated = task(
            "5 Evaluation", evaluate, values, model=model, shards=rows, baseline=before
        )
        variant.publish_if_blessed("6 Publication", values, evaluated, model=model)
