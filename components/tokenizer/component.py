"""The tokenizer component: a corpus to a tokenizer that `AutoTokenizer` opens."""

from kfp import dsl

from clozeflow.tokenizer.config import TokenizerConfig
from components import images
from components.artifacts import Corpus, Tokenizer
from components.documentation import documented_by


@dsl.container_component
@documented_by(TokenizerConfig)
def tokenizer(
    corpus: dsl.Input[Corpus],
    tokenizer: dsl.Output[Tokenizer],
    algorithm: str = "unigram",
    vocab_size: int = 8192,
    character_coverage: float = 0.9999,
    byte_fallback: bool = False,
    corpus_sample_bytes: int = 0,
    seed: int = 0,
    max_words: int = 1_000_000,
    model_max_length: int = 512,
    from_pretrained: str = "",
    baseline: str = "",
    max_unknown_rate: float = 1.0,
    num_workers: int = 0,
    engine: str = "process_pool",
    beam_args: str = "",
) -> dsl.ContainerSpec:
    """Trains a tokenizer on the train split of a corpus, or adopts one, and reports its quality.

    Args:
        corpus: The documents.

    Returns:
        tokenizer: The tokenizer's folder.
    """
    return dsl.ContainerSpec(image=images.CPU, command=images.COMMAND, args=["tokenizer", "{{$}}"])
