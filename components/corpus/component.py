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
    documents: str = "line",
    text_field: str = "text",
    unicode_form: str = "NFC",
    bad_bytes: str = "replace",
    validation_fraction: float = 0.02,
    test_fraction: float = 0.02,
    num_workers: int = 0,
) -> dsl.ContainerSpec:
    """Reads raw text and writes clean, deduplicated documents in train, validation and test.

    Args:
        corpus: The documents, as Parquet files.
    """
    return dsl.ContainerSpec(
        image=images.CPU, command=["clozeflow-component"], args=["corpus", "{{$}}"]
    )
