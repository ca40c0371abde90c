"""The pretrain pipeline: raw text to an evaluated masked language model.

1. corpus: reads the sources; cleans, deduplicates and splits the documents.
2. tokenizer: learns a vocabulary from the train split.
3. shard: tokenizes the corpus and packs it into examples of one length.
4. preflight: where a TPU slice is to train, has the step compiled for it, and ends the run where it
   does not fit.
5. train: trains the model; on Vertex AI this is a custom job on a TPU slice.
6. evaluate: asks the model for masked tokens of held-out text, and blesses it where it should.
7. publish: sends a blessed model to where it is asked for, with a model card.
8. summary: says how the run ended and what it made, whatever its end.
"""

from kfp.dsl.base_component import BaseComponent

from clozeflow.corpus.config import CorpusConfig
from clozeflow.evaluation.config import EvaluateConfig
from clozeflow.preflight.config import PreflightConfig
from clozeflow.publishing.config import PublishConfig
from clozeflow.shards.config import ShardConfig
from clozeflow.tokenizer.config import TokenizerConfig
from clozeflow.training.config import TrainConfig
from components.corpus.component import corpus
from components.evaluate.component import evaluate
from components.shard.component import shard
from components.tokenizer.component import tokenizer
from pipelines.graph import HERE, Variant, make_pipeline


def pretrain_pipeline(variant: Variant = HERE) -> BaseComponent:
    """The pipeline, for the place that the variant describes."""
    return make_pipeline(
        pretrain,
        variant,
        *(
            CorpusConfig,
            TokenizerConfig,
            ShardConfig,
            TrainConfig,
            PreflightConfig,
            EvaluateConfig,
            PublishConfig,
        ),
        name="pretrain",
        display_name="Pretrain a masked language model",
    )


def pretrain(
    variant: Variant,
    source: list = ["sample"],
    validation_source: list = [],
    test_source: list = [],
    documents: str = "line",
    text_field: str = "text",
    languages: list = [],
    near_duplicates: str = "report",
    validation_fraction: float = 0.02,
    test_fraction: float = 0.02,
    algorithm: str = "unigram",
    vocab_size: int = 8192,
    seq_len: int = 128,
    preset: str = "tiny",
    model_config: str = "",
    init_from: str = "",
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
    tpu: str = "",
    preflight: str = "on",
    checkpoint_every_steps: int = 100,
    validate_every_steps: int = 0,
    keep: str = "last",
    early_stopping_patience: int = 0,
    prompts: list = [],
    require: list = [],
    publish_to: str = "",
    visibility: str = "private",
    token_secret: str = "",
    license: str = "",
    serving_image: str = "",
    **job: str,
) -> None:
    """Trains a masked language model from raw text and says how good it is.

    Args:
        seed: Chooses samples, the order of examples, the weights, the masks and the questions.
        masking_rate: The share of tokens that is masked, in training and evaluation (0 to 1).
        require: Thresholds such as `masked_accuracy>=0.35`; where all hold the model is blessed.
    """
    values = {**locals(), **job}
    task = variant.task
    with variant.summed_up():
        text = task("1 Corpus", corpus, values, leave_out=("require",)).outputs["corpus"]
        pieces = task("2 Tokenizer", tokenizer, values, corpus=text).outputs["tokenizer"]
        rows = task("3 Shards", shard, values, corpus=text, tokenizer=pieces).outputs["shards"]
        trained = variant.train_after_preflight(values, first=4, shards=rows, tokenizer=pieces)
        model = trained.outputs["model"]
        evaluated = task("6 Evaluation", evaluate, values, model=model, shards=rows)
        variant.publish_if_blessed("7 Publication", values, evaluated, model=model)
