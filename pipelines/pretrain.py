"""The pretrain pipeline: raw text to an evaluated masked language model.

1. corpus: reads the sources; cleans, deduplicates and splits the documents.
2. tokenizer: learns a vocabulary from the train split.
3. shard: tokenizes the corpus and packs it into examples of one length.
4. train: trains the model; on Vertex AI this is a custom job on a TPU slice.
5. evaluate: asks the model for masked tokens of held-out text, and blesses it where it should.
6. summary: says how the run ended and what it made, whatever its end.
"""

from kfp import dsl
from kfp.dsl.base_component import BaseComponent

from clozeflow.corpus.config import CorpusConfig
from clozeflow.evaluation.config import EvaluateConfig
from clozeflow.shards.config import ShardConfig
from clozeflow.tokenizer.config import TokenizerConfig
from clozeflow.training.config import TrainConfig
from components.corpus.component import corpus
from components.documentation import documented_by
from components.evaluate.component import evaluate
from components.shard.component import shard
from components.tokenizer.component import tokenizer
from pipelines.graph import HERE, Variant, with_job_parameters


def pretrain_pipeline(variant: Variant = HERE) -> BaseComponent:
    """The whole graph, for the place that the variant describes."""

    @dsl.pipeline(name="pretrain", display_name="Pretrain a masked language model")
    @with_job_parameters(variant)
    @documented_by(CorpusConfig, TokenizerConfig, ShardConfig, TrainConfig, EvaluateConfig)
    def pretrain(
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
        num_train_steps: int = 400,
        global_batch_size: int = 64,
        peak_learning_rate: float = 2e-3,
        warmup_steps: int = 40,
        masking_rate: float = 0.15,
        dropout_rate: float = 0.1,
        seed: int = 0,
        checkpoint_every_steps: int = 100,
        prompts: list = [],
        require: list = [],
        **job: str,
    ) -> None:
        """Trains a masked language model from raw text and says how good it is.

        Args:
            seed: Chooses the order of examples, the weights, the masks and the questions.
            masking_rate: The share of tokens that is masked, in training and evaluation (0 to 1).
            require: Thresholds, for example `masked_accuracy>=0.35`: the model is blessed if all
                of them hold, and never where none is set.
        """
        with variant.summed_up():
            documents_task = corpus(
                source=source,
                validation_source=validation_source,
                test_source=test_source,
                documents=documents,
                text_field=text_field,
                languages=languages,
                near_duplicates=near_duplicates,
                validation_fraction=validation_fraction,
                test_fraction=test_fraction,
            )
            variant.settle(documents_task, "1 Corpus", "corpus")
            tokenizer_task = tokenizer(
                corpus=documents_task.outputs["corpus"], algorithm=algorithm, vocab_size=vocab_size
            )
            variant.settle(tokenizer_task, "2 Tokenizer", "tokenizer")
            shard_task = shard(
                corpus=documents_task.outputs["corpus"],
                tokenizer=tokenizer_task.outputs["tokenizer"],
                seq_len=seq_len,
                seed=seed,
            )
            variant.settle(shard_task, "3 Shards", "shard")
            train_task = variant.train(
                shards=shard_task.outputs["shards"],
                tokenizer=tokenizer_task.outputs["tokenizer"],
                preset=preset,
                num_train_steps=num_train_steps,
                global_batch_size=global_batch_size,
                peak_learning_rate=peak_learning_rate,
                warmup_steps=warmup_steps,
                masking_rate=masking_rate,
                dropout_rate=dropout_rate,
                seed=seed,
                checkpoint_every_steps=checkpoint_every_steps,
                **job,
            )
            variant.settle(train_task, "4 Training", "train")
            evaluate_task = evaluate(
                model=train_task.outputs["model"],
                shards=shard_task.outputs["shards"],
                masking_rate=masking_rate,
                seed=seed,
                prompts=prompts,
                require=require,
            )
            variant.settle(evaluate_task, "5 Evaluation", "evaluate")

    return pretrain
