"""Small artifacts to train on: a language of 251 words in which each word decides the next."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from clozeflow import artifacts
from clozeflow.artifacts import Artifact, ArtifactType, InputRef, Manifest, Split

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
NUM_WORDS = 251
VOCAB_SIZE = len(SPECIAL) + NUM_WORDS


def write_tokenizer(folder: Path, *, special: tuple[str, ...] = SPECIAL) -> Artifact:
    vocabulary = [*special, *(f"w{i}" for i in range(NUM_WORDS))]
    tokens = {token: index for index, token in enumerate(vocabulary)}
    model = Tokenizer(models.WordLevel(tokens, unk_token="<unk>"))
    model.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=model,
        bos_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        mask_token="<mask>",
        cls_token="<s>",
        sep_token="</s>",
        model_max_length=512,
    )
    tokenizer.save_pretrained(folder)
    return _finish(folder, ArtifactType.TOKENIZER, properties={"vocab_size": VOCAB_SIZE})


def make_rows(num_examples: int, seq_len: int, *, seed: int = 0) -> np.ndarray:
    """int32 [N, T]: `<s>`, words that follow each other by a rule, `</s>`, padding."""
    generator = np.random.default_rng(seed)
    words = np.empty((num_examples, seq_len), np.int64)
    words[:, 0] = generator.integers(NUM_WORDS, size=num_examples)
    for column in range(1, seq_len):
        words[:, column] = (words[:, column - 1] + 7) % NUM_WORDS
    rows = (words + len(SPECIAL)).astype(np.int32)
    lengths = np.where(generator.random(num_examples) < 0.2, seq_len // 2, seq_len)
    columns = np.arange(seq_len)[None, :]
    rows[:, 0] = 0
    rows = np.where(columns == lengths[:, None] - 1, 2, rows)
    return np.where(columns >= lengths[:, None], 1, rows).astype(np.int32)


def write_shards(
    folder: Path,
    tokenizer: Artifact,
    *,
    seq_len: int = 16,
    num_examples: int = 96,
    num_validation_examples: int = 24,
    rows: np.ndarray | None = None,
) -> Artifact:
    rows = make_rows(num_examples, seq_len) if rows is None else rows
    splits = {"train": rows, "validation": make_rows(num_validation_examples, seq_len, seed=1)}
    ref = InputRef(
        name="tokenizer",
        type=tokenizer.manifest.type,
        fingerprint=tokenizer.manifest.fingerprint,
        uri=tokenizer.uri,
    )
    return _finish(
        folder,
        ArtifactType.SHARDS,
        properties={"seq_len": seq_len, "vocab_size": VOCAB_SIZE, "pad_token_id": 1},
        splits={name: _write_split(folder, name, part) for name, part in splits.items()},
        inputs=(ref,),
    )


def _write_split(folder: Path, split: str, rows: np.ndarray) -> Split:
    entries = []
    for index, part in enumerate(np.array_split(rows, 2)):
        path = f"{split}/shard-{index:05d}-{len(part)}.tfrecord"
        (folder / split).mkdir(parents=True, exist_ok=True)
        with tf.io.TFRecordWriter(str(folder / path)) as writer:
            for row in part:
                writer.write(_example(row))
        counts = {"num_examples": len(part), "num_tokens": int((part != 1).sum())}
        entries.append(artifacts.file_entry(str(folder), path, counts=counts))
    return Split(files=tuple(entries))


def _example(row: np.ndarray) -> bytes:
    lists = {"input_ids": row.tolist(), "attention_mask": (row != 1).astype(int).tolist()}
    features = {
        name: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        for name, values in lists.items()
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return example.SerializeToString(deterministic=True)


def _finish(folder: Path, kind: ArtifactType, **content) -> Artifact:
    names = [p.name for p in folder.iterdir() if p.is_file()]
    files = tuple(artifacts.file_entry(str(folder), name) for name in sorted(names))
    manifest = Manifest(
        type=kind, stage="test", config={}, shaping_config={}, files=files, **content
    )
    artifacts.write_manifest(str(folder), manifest)
    return Artifact(uri=str(folder), manifest=manifest)
