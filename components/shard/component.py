"""The shard component: a corpus and a tokenizer to TFRecord files of fixed-length examples."""

from kfp import dsl

from clozeflow.shards.config import ShardConfig
from components import images
from components.artifacts import Corpus, Shards, Tokenizer
from components.documentation import documented_by


@dsl.container_component
@documented_by(ShardConfig)
def shard(
    tokenizer: dsl.Input[Tokenizer],
    shards: dsl.Output[Shards],
    corpus: dsl.Input[Corpus] = None,
    seq_len: int = 128,
    packing: str = "documents",
    examples_per_shard: int = 8192,
    compression: str = "none",
    seed: int = 0,
    adopt: str = "",
    num_workers: int = 0,
    engine: str = "process_pool",
    beam_args: str = "",
) -> dsl.ContainerSpec:
    """Tokenizes a corpus and packs it into examples of `seq_len` tokens.

    Args:
        tokenizer: The tokenizer to cut them with.
        corpus: The documents; left out where a folder is adopted.

    Returns:
        shards: The examples, as TFRecord files.
    """
    return dsl.ContainerSpec(image=images.CPU, command=images.COMMAND, args=["shard", "{{$}}"])
