"""The corpus component: raw text to clean documents in train, validation and test."""

from kfp import dsl

from clozeflow.corpus.config import CorpusConfig
from components import images
from components.artifacts import Corpus
from components.documentation import documented_by


@dsl.container_component
@documented_by(CorpusConfig)
def corpus(
    corpus: dsl.Output[Corpus],
    source: list = ["sample"],
    validation_source: list = [],
    test_source: list = [],
    weights: list = [],
    own_splits: str = "keep",
    documents: str = "line",
    text_field: str = "text",
    unicode_form: str = "NFC",
    bad_bytes: str = "replace",
    min_characters: int = 0,
    max_characters: int = 0,
    min_letter_share: float = 0.0,
    max_repetition: float = 1.0,
    languages: list = [],
    near_duplicates: str = "report",
    near_duplicate_similarity: float = 0.8,
    keep_dropped: bool = False,
    validation_fraction: float = 0.02,
    test_fraction: float = 0.02,
    require: list = [],
    num_workers: int = 0,
    engine: str = "process_pool",
    beam_args: str = "",
) -> dsl.ContainerSpec:
    """Reads raw text and writes clean, deduplicated documents in train, validation and test.

    Returns:
        corpus: The documents, as Parquet files.
    """
    return dsl.ContainerSpec(image=images.CPU, command=images.COMMAND, args=["corpus", "{{$}}"])
