"""A folder of TFRecords that others made, read, checked, and given a manifest.

What the Hugging Face scripts write is of our own form: `tf.train.Example` with `input_ids` and
`attention_mask`, names that end in the number of examples. Subfolders called `train`,
`validation` and `test` are splits; files outside of these are for training. The files keep
their bytes and get our names.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from clozeflow import artifacts, engine, stages, storage
from clozeflow.artifacts import FileEntry, InputRef, Split
from clozeflow.errors import UserError
from clozeflow.shards import fetch, records, source
from clozeflow.shards.config import ShardConfig

logger = logging.getLogger(__name__)

_SPLITS = ("train", "validation", "test")
_NAME = re.compile(r"\.tfrecords?(\.gz)?$")
_COUNT = re.compile(r"-(\d+)\.tfrecords?(\.gz)?$")
_OF = re.compile(r"-of-\d+\.tfrecords?(\.gz)?$")
"""`part-00000-of-00010`: the last number is one of files, not of examples."""
_PARTS = re.compile(r"(\d+)|(\D+)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdoptedFile:
    """A unit of the work: one file."""

    location: str
    seq_len: int
    vocab_size: int


def source_ref(folder: str) -> InputRef:
    """The folder as an input of the stage, named by the content of its shards."""
    files = [artifacts.file_entry(folder, path) for path in _paths(folder)]
    content = [[file.path, file.num_bytes, file.sha256] for file in files]
    return InputRef(
        name="adopt", type="TFRecords", fingerprint=artifacts.fingerprint_of(content), uri=folder
    )


def adopt(config: ShardConfig, vocab_size: int, output: str) -> dict[str, Split]:
    """Checks every example of the folder and puts its files into the artifact.

    Raises:
        UserError: There are no shards, or the first that is damaged, of another length, or with
            ids that the vocabulary does not have.
    """
    paths = _paths(config.adopt)
    units = [
        AdoptedFile(
            location=storage.join(config.adopt, path),
            seq_len=config.seq_len,
            vocab_size=vocab_size,
        )
        for path in paths
    ]
    results = engine.run_units(
        check_file,
        units,
        workers=engine.Workers.of(config),
        description="shards",
        ledger=stages.unit_ledger(output, "adopt"),
    )
    splits = {}
    for split in _SPLITS:
        chosen = [
            (path, entry)
            for path, entry in zip(paths, results, strict=True)
            if _split_of(path) == split
        ]
        if chosen:
            splits[split] = Split(files=tuple(_copy(config, split, chosen, output)))
    return splits


def check_file(unit: AdoptedFile) -> dict[str, Any]:
    """Reads a whole file.

    Returns:
        Its `num_bytes`, `sha256` and `counts`, as the manifest has them.
    """
    num_bytes, sha256 = artifacts.hash_file(unit.location)
    content = fetch.unpack(unit.location, storage.read_bytes(unit.location))
    try:
        bounds = records.scan(content)
        records.check_payloads(content, bounds)
    except records.DamagedRecordError as error:
        raise fetch.damaged(unit.location, str(error)) from None
    _check_count(unit.location, len(bounds))
    seq_len = source.seq_len_of(unit.location, content[slice(*bounds[0])])
    if seq_len != unit.seq_len:
        raise UserError(
            unit.location,
            f"its rows are {seq_len} long, the run expects {unit.seq_len}",
            fix=f"Give --seq-len {seq_len}, or shards of {unit.seq_len} tokens.",
        )
    input_ids, attention_mask = source.decode(unit.location, content, bounds, seq_len)
    _check_ids(unit, input_ids)
    counts = {"num_examples": len(bounds), "num_tokens": int(attention_mask.sum(dtype=np.int64))}
    return {"num_bytes": num_bytes, "sha256": sha256, "counts": counts}


def _paths(folder: str) -> list[str]:
    """The shards below the folder, numbers in their names counted as numbers."""
    paths = [path for path in storage.list_files(folder) if _NAME.search(path)]
    if not paths:
        raise UserError(
            folder,
            "holds no shards",
            expected="files whose names end in .tfrecord or .tfrecord.gz",
            fix="Check --adopt.",
        )
    return sorted(paths, key=lambda path: [(int(n or 0), t) for n, t in _PARTS.findall(path)])


def _split_of(path: str) -> str:
    folders = path.split("/")[:-1]
    return next((split for split in _SPLITS if split in folders), "train")


def _check_count(location: str, num_examples: int) -> None:
    """Compares what was read with the number in the name: the only trace of a lost end."""
    stated = None if _OF.search(location) else _COUNT.search(location)
    if stated is None:
        logger.warning(
            "%s: its name has no number of examples: a missing end would go unseen", location
        )
    elif int(stated[1]) != num_examples:
        raise UserError(
            location,
            "holds another number of examples than its name says",
            got=f"{num_examples:,}",
            expected=f"{int(stated[1]):,}",
            fix="The file was cut or renamed: make it again.",
        )
    if not num_examples:
        raise UserError(location, "holds no examples", fix="Remove the file, or make it again.")


def _check_ids(unit: AdoptedFile, input_ids: np.ndarray) -> None:
    is_wrong = (input_ids < 0) | (input_ids >= unit.vocab_size)
    if is_wrong.any():
        raise UserError(
            unit.location,
            "has an id that the tokenizer does not have",
            got=int(input_ids[is_wrong][0]),
            expected=f"0 to {unit.vocab_size - 1}",
            fix="Give the --tokenizer that these shards were made with.",
        )


def _copy(
    config: ShardConfig, split: str, chosen: Sequence[tuple[str, Any]], output: str
) -> list[FileEntry]:
    entries = []
    for index, (path, found) in enumerate(chosen):
        suffix = ".tfrecord.gz" if path.endswith(".gz") else ".tfrecord"
        name = f"{split}/shard-{index:05d}-{found['counts']['num_examples']}{suffix}"
        storage.copy_file(storage.join(config.adopt, path), storage.join(output, name))
        entries.append(FileEntry(path=name, **found))
    return entries
