"""`clozeflow verify`: an artifact read again, byte by byte, and then by what it means."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from clozeflow import artifacts, storage
from clozeflow.artifacts import Artifact, ArtifactType, Manifest
from clozeflow.errors import UserError

CHECKS: Mapping[str, str] = {
    ArtifactType.TOKENIZER: "clozeflow.tokenizer.golden:check",
}
"""What more is checked of a type of artifact: a function that takes the `Artifact`."""


CHECKED_LOCAL_BYTES, CHECKED_REMOTE_BYTES = 4 << 30, 64 << 20
"""So much of an input's content is read before a stage begins: some seconds."""


def verify(folder: str) -> Manifest:
    """Re-reads an artifact and returns its manifest.

    Raises:
        UserError: The first file that is missing, cut, changed, no part of the artifact, or does
            not do what it should.
    """
    manifest = artifacts.read_manifest(folder)
    check_listing(folder, manifest)
    artifacts.check_files(folder, manifest.all_files())
    if check := CHECKS.get(manifest.type):
        module, function = check.split(":")
        getattr(importlib.import_module(module), function)(Artifact(uri=folder, manifest=manifest))
    return manifest


def check_listing(folder: str, manifest: Manifest) -> None:
    """Compares the names and sizes of an artifact's files with its manifest; reads none of them.

    Hidden files are anybody's: `.gitattributes`, the rest of a work folder.

    Raises:
        UserError: The first file that is missing, of another length, or not in the manifest:
            libraries would read an `added_tokens.json` that nobody listed.
    """
    found = storage.list_sizes(folder)
    found.pop(artifacts.MANIFEST, None)
    for entry in manifest.all_files():
        size = found.pop(entry.path, None)
        if size != entry.num_bytes:
            artifacts.check_files(folder, [entry])
    if found:
        raise UserError(
            storage.join(folder, min(found)),
            "is no file of this artifact: its manifest does not list it",
            fix="Move it elsewhere, or delete it.",
        )


def check_at_once(artifact: Artifact) -> None:
    """Checks an input before work: every size, and the content as far as it is quick.

    What is beyond `CHECKED_LOCAL_BYTES` (or, in an object store, `CHECKED_REMOTE_BYTES`) is
    checked by `verify`, and shards again when they are read.

    Raises:
        UserError: The first file that is not as the manifest says.
    """
    if artifact.manifest.type == artifacts.SOURCE:  # made just now, by reading it
        return
    check_listing(artifact.uri, artifact.manifest)
    is_remote = storage.is_remote(artifact.uri)
    left = CHECKED_REMOTE_BYTES if is_remote else CHECKED_LOCAL_BYTES
    for entry in artifact.manifest.all_files():
        left -= entry.num_bytes
        if left < 0:
            return
        artifacts.check_files(artifact.uri, [entry])
