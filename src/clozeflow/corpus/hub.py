"""Data sets of the Hugging Face Hub, or of a local folder in the Hub's layout, streamed.

`hf:NAME[:CONFIG][@REVISION]`. Without a revision, the newest is looked up once and pinned: the
commit's hash is what the manifest records and what every unit of work reads.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from clozeflow import artifacts, storage
from clozeflow.errors import UserError

PREFIX = "hf:"
_SPEC = re.compile(r"hf:(?P<name>[^:@]+)(:(?P<config>[^:@]+))?(@(?P<revision>[^:@#]+))?")
_BATCH_SIZE = 1024


@dataclasses.dataclass(frozen=True, kw_only=True)
class HubSplit:
    """A split of a data set at a fixed revision."""

    name: str
    dataset: str
    """The data set's own name, without a path."""
    location: str
    """`hf:NAME[:CONFIG][@REVISION]#SPLIT`, pinned: all that a unit needs to open it."""
    fingerprint: str


def find_splits(spec: str) -> list[HubSplit]:
    """The splits of a data set, its revision pinned.

    Raises:
        UserError: It is no such name, there is no such data set, or it cannot be reached.
    """
    match = _SPEC.fullmatch(spec)
    if not match:
        raise UserError(
            f"--source {spec}",
            "is no name of a data set",
            expected="hf:NAME[:CONFIG][@REVISION]",
            fix="Write for example hf:wikitext:wikitext-2-raw-v1@main.",
        )
    name, config = match["name"], match["config"]
    if Path(name).is_dir():
        identity, revision = _folder_fingerprint(name), None
    else:
        revision = _pin(spec, name, match["revision"])
        identity = artifacts.fingerprint_of([name, config, revision])
    pinned = f"{PREFIX}{name}{f':{config}' if config else ''}{f'@{revision}' if revision else ''}"
    return [
        HubSplit(
            name=split,
            dataset=Path(name).name,
            location=f"{pinned}#{split}",
            fingerprint=identity,
        )
        for split in sorted(_open(pinned))
    ]


def num_shards(location: str) -> int:
    """How many parts a split (a `HubSplit.location`) can be read in."""
    return int(_open_split(location).num_shards)


def read_shard(location: str, index: int, text_field: str) -> Iterator[pa.ChunkedArray]:
    """The texts of one shard of a split, a batch at a time.

    Raises:
        UserError: The data set has no such field, or the network failed for good.
    """
    dataset = _open_split(location)
    if dataset.column_names and text_field not in dataset.column_names:
        raise UserError(
            location,
            f"has no field {text_field!r}",
            got=", ".join(dataset.column_names),
            fix="Name the field of the text with --text-field.",
        )
    shard = dataset.shard(num_shards=num_shards(location), index=index)
    for table in shard.with_format("arrow").iter(batch_size=_BATCH_SIZE):
        yield table.column(text_field)


def _open_split(location: str) -> Any:
    pinned, _, split = location.partition("#")
    return _open(pinned)[split]


@functools.lru_cache(maxsize=8)
def _open(pinned: str) -> Any:
    """The data set, streamed: split name to iterable."""
    match = _SPEC.fullmatch(pinned)
    assert match, pinned
    try:
        return _datasets().load_dataset(
            match["name"], match["config"], revision=match["revision"], streaming=True
        )
    except UserError:
        raise
    except Exception as error:  # the library raises many kinds; its words say which
        raise _unreachable(pinned, error) from error


def _datasets() -> Any:
    try:
        import datasets
    except ImportError:
        raise UserError(
            "--source hf:…",
            "wants the datasets library",
            fix="Install it: pip install 'clozeflow[hub]'.",
        ) from None
    return datasets


def _pin(spec: str, name: str, revision: str | None) -> str:
    """The commit that a revision (a branch, a tag, or none) is at now."""
    if revision and re.fullmatch("[0-9a-f]{40}", revision):
        return revision
    _datasets()
    from huggingface_hub import HfApi

    try:
        return str(HfApi().dataset_info(name, revision=revision).sha)
    except Exception as error:  # no network, no such name, no rights: its words say which
        raise _unreachable(spec, error) from error


def _unreachable(spec: str, error: Exception) -> UserError:
    kind = type(error).__name__
    words = (str(error).strip() or kind).splitlines()[0]
    is_network = any(word in f"{kind} {words}" for word in ("Connect", "Offline", "resolve"))
    return UserError(
        f"--source {spec}",
        "the Hub cannot be reached" if is_network else "the data set cannot be opened",
        got=f"{kind}: {words[:200]}",
        fix="Check its name and the network, or download it and give the folder: hf:./FOLDER.",
    )


def _folder_fingerprint(folder: str) -> str:
    return artifacts.fingerprint_of(
        [
            [name, artifacts.hash_file(storage.join(folder, name))[1]]
            for name in storage.list_files(folder)
        ]
    )
