"""The shard stage: encode, pack, shuffle, write; then number the shards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from clozeflow import engine, stages, storage
from clozeflow.artifacts import Artifact, FileEntry, Split
from clozeflow.corpus import reader
from clozeflow.errors import UserError
from clozeflow.shards import encoding, packing, units
from clozeflow.shards.config import ShardConfig
from clozeflow.shards.units import Unit

Result = Mapping[str, Any]
"""What `units.write_unit` returns."""


def run(config: ShardConfig, inputs: Mapping[str, Artifact], output: str) -> stages.Outcome:
    """Makes the shards of every split of the corpus.

    Raises:
        UserError: The corpus has no training documents, or the disk is full.
    """
    corpus, tokenizer = inputs["corpus"], inputs["tokenizer"]
    todo = plan(config, corpus, tokenizer, output)
    results = engine.run_units(
        units.write_unit,
        todo,
        num_workers=config.num_workers,
        description="shards",
        ledger=stages.unit_ledger(output, "shards"),
    )
    splits = {
        split: _finish_split(config, split, _of_split(todo, results, split), output)
        for split in corpus.manifest.splits
    }
    if "train" not in splits or not splits["train"].files:
        raise UserError(corpus.uri, "has no training documents", fix="Give a corpus that has.")
    return stages.Outcome(splits=splits, properties=_properties(config, tokenizer, splits, results))


def plan(config: ShardConfig, corpus: Artifact, tokenizer: Artifact, output: str) -> list[Unit]:
    """The units of the stage's work: one a part of the corpus."""
    return [
        Unit(
            split=split,
            index=index,
            part=part,
            tokenizer=tokenizer.uri,
            folder=_aside(output, split),
            seq_len=config.seq_len,
            examples_per_shard=config.examples_per_shard,
            seed=config.seed,
        )
        for split in corpus.manifest.splits
        for index, part in enumerate(reader.parts(corpus, split))
    ]


def _of_split(todo: Sequence[Unit], results: Sequence[Result], split: str) -> list[Result]:
    return [result for unit, result in zip(todo, results, strict=True) if unit.split == split]


def _finish_split(config: ShardConfig, split: str, results: Sequence[Result], output: str) -> Split:
    """Packs what the units left over, and gives every shard its number and place."""
    written = [file for result in results for file in result["files"]]
    rests = [np.array(result["rest"], np.int32) for result in results]
    stream = np.concatenate([np.empty(0, np.int32), *rests])
    rows, rest = packing.full_rows(stream, config.seq_len)
    rows = packing.concatenate([rows, packing.last_row(rest, config.seq_len)], config.seq_len)
    written += units.write_shards(rows, _aside(output, split), "rest", config.examples_per_shard)
    return Split(files=tuple(_place(written, split, output)))


def _place(written: Sequence[Result], split: str, output: str) -> Iterable[FileEntry]:
    """Moves files to their final names; those that an earlier run moved are there already."""
    for index, file in enumerate(written):
        path = f"{split}/shard-{index:05d}-{file['counts']['num_examples']}.tfrecord"
        if storage.is_file(file["location"]):
            storage.move_file(file["location"], storage.join(output, path))
        yield FileEntry(
            path=path, num_bytes=file["num_bytes"], sha256=file["sha256"], counts=file["counts"]
        )


def _aside(output: str, split: str) -> str:
    return storage.join(stages.work_folder(output), "shards", split)


def _properties(
    config: ShardConfig,
    tokenizer: Artifact,
    splits: Mapping[str, Split],
    results: Sequence[Result],
) -> dict[str, Any]:
    counts = [split.counts for split in splits.values()]
    num_examples = sum(count.get("num_examples", 0) for count in counts)
    num_tokens = sum(count.get("num_tokens", 0) for count in counts)
    return {
        "seq_len": config.seq_len,
        "vocab_size": encoding.encoder(tokenizer.uri).vocab_size,
        "pad_token_id": packing.PAD_ID,
        "num_examples": num_examples,
        "num_tokens": num_tokens,
        "num_document_tokens": sum(result["num_document_tokens"] for result in results),
        "padding_share": 1 - num_tokens / (num_examples * config.seq_len),
    }
