"""Manifests: what an artifact is, what it is made of, and what made it.

An artifact is a folder with a `manifest.json`, written last: a folder without one is unfinished.
Manifests chain through `inputs`, so that a model names its data to the byte, with no server.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Self

from clozeflow import __version__, storage
from clozeflow.errors import UserError

MANIFEST = "manifest.json"
SCHEMA_VERSION = 1


class ArtifactType(enum.StrEnum):
    """The kinds of artifact; the value is what a manifest's `type` says."""

    CORPUS = "clozeflow.Corpus"
    TOKENIZER = "clozeflow.Tokenizer"
    SHARDS = "clozeflow.Shards"
    PREFLIGHT_REPORT = "clozeflow.PreflightReport"
    MASKED_LM = "clozeflow.MaskedLM"
    CHECKPOINTS = "clozeflow.Checkpoints"
    EVALUATION = "clozeflow.Evaluation"
    PUBLICATION = "clozeflow.Publication"
    PREDICTIONS = "clozeflow.Predictions"
    DATASET = "clozeflow.Dataset"
    """As an input: anybody's files, which need no manifest (see `open_dataset`)."""


SOURCE = "source"
"""The type of what is outside clozeflow, in a manifest's `inputs`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileEntry:
    """One file of an artifact: where it is, how long, and the hash of its bytes."""

    path: str
    """Relative to the artifact's folder."""
    num_bytes: int
    sha256: str
    auxiliary: bool = False
    """Logs, plots and times: checked by `verify`, and no part of the fingerprint."""
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """What is in it: `num_examples`, `num_documents`, …"""

    def to_dict(self) -> dict[str, Any]:
        """The entry as the manifest writes it, the counts beside the path."""
        entry = {
            "path": self.path,
            **self.counts,
            "num_bytes": self.num_bytes,
            "sha256": self.sha256,
        }
        return {**entry, "auxiliary": True} if self.auxiliary else entry

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Self:
        """The reverse of `to_dict`."""
        own = {field.name for field in dataclasses.fields(cls)}
        check_inside(entry["path"])
        return cls(
            **{key: value for key, value in entry.items() if key in own},
            counts={key: value for key, value in entry.items() if key not in own},
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Split:
    """A part of an artifact: train, validation or test. Its counts are the sums of its files'."""

    files: tuple[FileEntry, ...]

    @property
    def counts(self) -> dict[str, int]:
        """The sum over the files of each count."""
        names = sorted({name for file in self.files for name in file.counts})
        return {name: sum(file.counts.get(name, 0) for file in self.files) for name in names}


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputRef:
    """Something an artifact was made from: another artifact, or a source outside clozeflow."""

    name: str
    type: str
    fingerprint: str
    uri: str
    """Where it was at the time; no part of the fingerprint."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """All that is known of an artifact, as `manifest.json` holds it."""

    type: str
    stage: str
    config: Mapping[str, Any]
    """Every setting of the stage."""
    shaping_config: Mapping[str, Any]
    """The settings that the fingerprint covers."""
    inputs: tuple[InputRef, ...] = ()
    splits: Mapping[str, Split] = dataclasses.field(default_factory=dict)
    files: tuple[FileEntry, ...] = ()
    """The files outside of splits."""
    properties: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Facts that later stages check and that Vertex ML Metadata shows: numbers and strings."""
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Parameter outputs of the component, for example `blessed`."""
    work_key: str = ""
    """What was asked for, before the work (see `stages.work_key`)."""
    code: str = ""
    """A hash of the source that did the work."""
    created: str = dataclasses.field(
        default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    )
    clozeflow: str = __version__
    schema_version: int = SCHEMA_VERSION

    @property
    def fingerprint(self) -> str:
        """`sha256:…` of the content and what shaped it; not of time, host, path or code version."""
        return fingerprint_of(
            {
                "type": self.type,
                "schema_version": self.schema_version,
                "config": dict(self.shaping_config),
                "inputs": [[i.name, i.type, i.fingerprint] for i in self.inputs],
                "splits": {
                    name: [[f.path, f.sha256] for f in split.files]
                    for name, split in self.splits.items()
                },
                "files": [[f.path, f.sha256] for f in self.files if not f.auxiliary],
            }
        )

    def all_files(self) -> list[FileEntry]:
        """Every file of the artifact but the manifest."""
        return [*(f for split in self.splits.values() for f in split.files), *self.files]

    def input(self, name: str) -> InputRef:
        """The input of that name; a programming error if there is none."""
        return next(i for i in self.inputs if i.name == name)

    def to_dict(self) -> dict[str, Any]:
        """The manifest as JSON-serialisable values, with a digest of them all."""
        value = {
            "type": self.type,
            "schema_version": self.schema_version,
            "fingerprint": self.fingerprint,
            "producer": {
                "stage": self.stage,
                "clozeflow": self.clozeflow,
                "code": self.code,
                "config": dict(self.config),
                "shaping_config": sorted(self.shaping_config),
                "work_key": self.work_key,
                "created": self.created,
            },
            "inputs": [dataclasses.asdict(i) for i in self.inputs],
            "splits": {
                name: {**split.counts, "files": [f.to_dict() for f in split.files]}
                for name, split in self.splits.items()
            },
            "files": [f.to_dict() for f in self.files],
            "properties": dict(self.properties),
            "metrics": dict(self.metrics),
            "parameters": dict(self.parameters),
        }
        return {**value, "digest": fingerprint_of(value)}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The reverse of `to_dict`."""
        producer = value["producer"]
        return cls(
            type=value["type"],
            schema_version=value["schema_version"],
            stage=producer["stage"],
            clozeflow=producer["clozeflow"],
            code=producer["code"],
            config=producer["config"],
            shaping_config={name: producer["config"][name] for name in producer["shaping_config"]},
            work_key=producer["work_key"],
            created=producer["created"],
            inputs=tuple(InputRef(**i) for i in value["inputs"]),
            splits={
                name: Split(files=tuple(FileEntry.from_dict(f) for f in split["files"]))
                for name, split in value["splits"].items()
            },
            files=tuple(FileEntry.from_dict(f) for f in value["files"]),
            properties=value["properties"],
            metrics=value["metrics"],
            parameters=value["parameters"],
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Artifact:
    """An artifact as a stage gets it: where it is and what its manifest says."""

    uri: str
    manifest: Manifest

    def path(self, name: str) -> str:
        """The location of one of its files."""
        return storage.join(self.uri, name)


def fingerprint_of(value: Any) -> str:
    """`sha256:…` of a JSON-serialisable value in its canonical form."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def check_inside(path: str) -> None:
    """Refuses a file's name that leads out of its artifact's folder.

    Raises:
        ValueError: It does.
    """
    if not path or path.startswith("/") or "\\" in path or {"", ".", ".."} & {*path.split("/")}:
        raise ValueError(f"{path!r} is no name of a file below a folder")


def hash_file(location: str) -> tuple[int, str]:
    """The size in bytes and the SHA-256 (hex) of a file, read in pieces."""
    with storage.open_read(location) as file:
        digest, size = hashlib.sha256(), 0
        while piece := file.read(1 << 20):
            digest.update(piece)
            size += len(piece)
    return size, digest.hexdigest()


def file_entry(
    folder: str, path: str, *, auxiliary: bool = False, counts: Mapping[str, int] | None = None
) -> FileEntry:
    """The entry of a file that stands in the folder, made by reading it."""
    num_bytes, sha256 = hash_file(storage.join(folder, path))
    return FileEntry(
        path=path, num_bytes=num_bytes, sha256=sha256, auxiliary=auxiliary, counts=counts or {}
    )


def write_manifest(folder: str, manifest: Manifest) -> None:
    """Finishes an artifact: the last write into its folder."""
    text = json.dumps(manifest.to_dict(), indent=1, ensure_ascii=False)
    storage.write_text(storage.join(folder, MANIFEST), text + "\n")


def is_finished(folder: str) -> bool:
    """Whether the folder holds a manifest."""
    return storage.is_file(storage.join(folder, MANIFEST))


def read_manifest(folder: str) -> Manifest:
    """The manifest of a finished artifact; its own fingerprint is checked.

    Raises:
        UserError: There is none, or it is not one, or it was changed by hand.
    """
    location = storage.join(folder, MANIFEST)
    if not storage.is_file(location):
        raise _unfinished(folder)
    try:
        value = json.loads(storage.read_text(location))
        manifest = Manifest.from_dict(value)
        stated = value["fingerprint"]
        # A manifest without a digest is one of before there were digests.
        digest = value.pop("digest", None) or fingerprint_of(value)
        is_as_written = digest == fingerprint_of(value)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(
            location, f"is no manifest of clozeflow: {error!r}", fix="Make the artifact again."
        ) from None
    if manifest.schema_version != SCHEMA_VERSION:
        raise UserError(
            location,
            "was written by another version of clozeflow",
            got=f"schema version {manifest.schema_version}",
            expected=SCHEMA_VERSION,
            fix="Make the artifact again, or use the version that wrote it.",
        )
    if manifest.fingerprint != stated:
        raise UserError(
            location,
            "was changed after it was written: its fingerprint does not cover what it says",
            got=manifest.fingerprint,
            expected=stated,
            fix="Make the artifact again.",
        )
    if not is_as_written:
        raise UserError(
            location,
            "was changed after it was written: its digest is not that of what it says",
            fix="Make the artifact again.",
        )
    return manifest


def _unfinished(folder: str) -> UserError:
    """What to say of a folder without a manifest."""
    names = storage.list_files(folder)
    if not names:
        return UserError(folder, "does not exist, or is empty", fix="Check the path.")
    fix = "Check the path, or run the stage that makes it again: it completes the folder."
    if any(name.endswith((".tfrecord", ".tfrecord.gz")) for name in names):
        fix = (
            "If it was begun by clozeflow, run the stage again: it completes the folder. If others "
            f"made its TFRecords: clozeflow shard --adopt {folder} --tokenizer … --output …"
        )
    return UserError(folder, f"is no finished artifact: it has no {MANIFEST}", fix=fix)


def open_artifact(folder: str, expected_type: str, *, name: str) -> Artifact:
    """A stage's input: its manifest read, its type checked.

    Args:
        folder: Where the artifact is.
        expected_type: The type that the stage reads.
        name: The input's name, for the message.
    """
    manifest = read_manifest(folder)
    if manifest.type != expected_type:
        raise UserError(
            folder,
            f"is not what --{name} wants",
            got=manifest.type,
            expected=str(expected_type),
            fix=f"Give --{name} a folder of type {expected_type}.",
        )
    return Artifact(uri=folder, manifest=manifest)


def open_dataset(location: str, *, name: str) -> Artifact:
    """A file or a folder of anybody's, with a manifest made by reading it where it has none.

    Args:
        location: The file, or the folder.
        name: The input's name, for the message.

    Raises:
        UserError: There is no file.
    """
    if is_finished(location):
        return Artifact(uri=location, manifest=read_manifest(location))
    folder, names = location, storage.list_files(location)
    if storage.is_file(location):
        folder, _, file = location.rpartition("/")
        folder, names = folder or ".", [file]
    if not names:
        raise UserError(f"--{name} {location}", "holds no file", fix="Check the path.")
    manifest = Manifest(
        type=SOURCE,
        stage="",
        config={},
        shaping_config={},
        files=tuple(file_entry(folder, path) for path in names),
    )
    return Artifact(uri=folder, manifest=manifest)


def check_files(folder: str, entries: Iterable[FileEntry]) -> None:
    """Re-reads files and compares them with what a manifest says of them.

    Raises:
        UserError: The first file that is missing, of another length, or of other content.
    """
    for entry in entries:
        location = storage.join(folder, entry.path)
        if not storage.is_file(location):
            raise _damaged(location, "is missing", None, None)
        num_bytes, sha256 = hash_file(location)
        if num_bytes != entry.num_bytes:
            raise _damaged(
                location, "has another length", f"{num_bytes:,} bytes", f"{entry.num_bytes:,}"
            )
        if sha256 != entry.sha256:
            raise _damaged(location, "has other content (SHA-256)", sha256[:12], entry.sha256[:12])


def _damaged(location: str, what: str, got: object, expected: object) -> UserError:
    return UserError(
        location,
        what,
        got=got,
        expected=expected,
        fix="Take it back from a copy, or delete the folder and run the stage again.",
    )
