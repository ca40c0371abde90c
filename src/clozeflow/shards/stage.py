"""The shard stage: encode, pack, shuffle, write; then number the shards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from clozeflow import engine, stages, storage
from clozeflow.artifacts import Artifact, FileEntry, InputRef, Split
from clozeflow.corpus import reader
from clozeflow.errors import UserError
from clozeflow.shards import adopt, arrow, encoding, packing, page, provenance, units, writing
from clozeflow.shards.config import ShardConfig
from clozeflow.shards.statistics import Statistics
from clozeflow.shards.units import Unit
from clozeflow.tokenizer import loading
from clozeflow.tokenizer.special import SpecialIds

REPORT = "report.html"

Result = Mapping[str, Any]
"""What `units.write_unit` returns, or `writing.write_shards` of one file."""


def run(config: ShardConfig, inputs: Mapping[str, Artifact], output: str) -> stages.Outcome:
    """Makes the shards of every split of the corpus, or adopts a folder of them.

    Raises:
        UserError: The corpus has no training documents, or the disk is full.
    """
    tokenizer = inputs["tokenizer"]
    if ("corpus" in inputs) == bool(config.adopt):
        raise UserError(
            "--corpus", "is needed, unless --adopt is given", fix="Give one of the two."
        )
    if config.adopt:
        return _adopt(config, tokenizer, output)
    corpus = inputs["corpus"]
    special_ids = loading.special_ids(tokenizer.uri)
    todo = plan(config, corpus, tokenizer, special_ids, output)
    results = engine.run_units(
        units.write_unit,
        todo,
        workers=engine.Workers.of(config),
        description="shards",
        ledger=stages.unit_ledger(output, "shards"),
    )
    splits = {
        split: _finish_split(config, special_ids, split, _of_split(todo, results, split), output)
        for split in corpus.manifest.splits
    }
    if "train" not in splits or not splits["train"].files:
        raise UserError(corpus.uri, "has no training documents", fix="Give a corpus that has.")
    statistics = {
        split: Statistics.total(r["statistics"] for r in _of_split(todo, results, split))
        for split in splits
    }
    report = page.render(config, splits, statistics, method=results[0]["method"])
    storage.write_text(storage.join(output, REPORT), report)
    return stages.Outcome(
        splits=splits,
        properties=_properties(config, results[0]["vocab_size"], special_ids, splits),
        metrics=_metrics(
            config, splits, Statistics.total(s.to_dict() for s in statistics.values())
        ),
        auxiliary=(REPORT,),
    )


def source_refs(config: ShardConfig) -> list[InputRef]:
    """What the stage reads besides its inputs: the folder to adopt."""
    return [adopt.source_ref(config.adopt)] if config.adopt else []


def _adopt(config: ShardConfig, tokenizer: Artifact, output: str) -> stages.Outcome:
    vocab_size = encoding.encoder(tokenizer.uri).vocab_size
    splits = adopt.adopt(config, vocab_size, output)
    special_ids = loading.special_ids(tokenizer.uri)
    return stages.Outcome(
        splits=splits, properties=_properties(config, vocab_size, special_ids, splits)
    )


def plan(
    config: ShardConfig,
    corpus: Artifact,
    tokenizer: Artifact,
    special_ids: SpecialIds,
    output: str,
) -> list[Unit]:
    """The units of the stage's work: one a part of the corpus."""
    return [
        Unit(
            split=split,
            index=index,
            part=part,
            tokenizer=tokenizer.uri,
            special_ids=special_ids,
            folder=_aside(output, split),
            config=config,
        )
        for split in corpus.manifest.splits
        for index, part in enumerate(reader.parts(corpus, split))
    ]


def _of_split(todo: Sequence[Unit], results: Sequence[Result], split: str) -> list[Result]:
    return [result for unit, result in zip(todo, results, strict=True) if unit.split == split]


def _finish_split(
    config: ShardConfig,
    special_ids: SpecialIds,
    split: str,
    results: Sequence[Result],
    output: str,
) -> Split:
    """Packs what the units left over, and gives every shard its number and place."""
    packer = packing.packer(config.packing, seq_len=config.seq_len, ids=special_ids)
    rests = [np.array(result["rest"], np.int32) for result in results]
    ids = np.concatenate([np.empty(0, np.int32), *rests])
    rows, rest = packer.cut(ids)
    padded = packer.pad(rest).behind(len(ids) - len(rest))
    rows = packing.concatenate([rows, padded], config.seq_len)
    files = writing.write_shards(
        rows,
        storage.join(_aside(output, split), "rest"),
        examples_per_shard=config.examples_per_shard,
        compression=config.compression,
    )
    if provenance.is_kept(split):
        provenance.write_beside(files, rows, _rest_stream(results), packer)
    written = [*(file for result in results for file in result["files"]), *files]
    return Split(files=tuple(_place(config, split, written, output)))


def _rest_stream(results: Sequence[Result]) -> provenance.Stream:
    """Where what the units left over comes from."""
    stream = provenance.Stream()
    for result in results:
        names, lengths = zip(*result["rest_sources"], strict=True) if result["rest"] else ((), ())
        stream.add(arrow.strings(names), np.array(lengths, np.int64))
    return stream


def _place(
    config: ShardConfig, split: str, written: Sequence[Result], output: str
) -> Iterator[FileEntry]:
    """Moves files to their final names; those that an earlier run moved are there already."""
    suffix = writing.SUFFIXES[config.compression]
    for index, file in enumerate(written):
        path = f"{split}/shard-{index:05d}-{file['counts']['num_examples']}{suffix}"
        _move(file["location"], storage.join(output, path))
        if "sources" in file:
            _move(file["sources"], storage.join(output, provenance.path_of(path)))
        yield FileEntry(
            path=path, num_bytes=file["num_bytes"], sha256=file["sha256"], counts=file["counts"]
        )


def _move(location: str, target: str) -> None:
    if storage.is_file(location):
        storage.move_file(location, target)


def _aside(output: str, split: str) -> str:
    return storage.join(stages.work_folder(output), "shards", split)


def _properties(
    config: ShardConfig, vocab_size: int, special_ids: SpecialIds, splits: Mapping[str, Split]
) -> dict[str, Any]:
    return {
        "seq_len": config.seq_len,
        "vocab_size": vocab_size,
        "pad_token_id": special_ids.pad,
        "num_examples": _total(splits, "num_examples"),
        "num_tokens": _total(splits, "num_tokens"),
    }


def _metrics(
    config: ShardConfig, splits: Mapping[str, Split], counted: Statistics
) -> dict[str, float]:
    num_places = _total(splits, "num_examples") * config.seq_len
    return {
        "padding_share": 1 - _total(splits, "num_tokens") / num_places,
        "unknown_share": counted.num_unknown_tokens / counted.num_document_tokens,
        "tokens_per_document": counted.num_document_tokens / counted.num_documents,
        "tokens_per_byte": counted.num_document_tokens / counted.text_bytes,
    }


def _total(splits: Mapping[str, Split], count: str) -> int:
    return sum(split.counts.get(count, 0) for split in splits.values())
