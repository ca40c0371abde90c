"""`clozeflow verify`: an artifact read again, byte by byte, and then by what it means."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from clozeflow import artifacts
from clozeflow.artifacts import Artifact, ArtifactType, Manifest

CHECKS: Mapping[str, str] = {
    ArtifactType.TOKENIZER: "clozeflow.tokenizer.golden:check",
}
"""What more is checked of a type of artifact: a function that takes the `Artifact`."""


def verify(folder: str) -> Manifest:
    """Re-reads an artifact and returns its manifest.

    Raises:
        UserError: The first file that is missing, cut, changed, or does not do what it should.
    """
    manifest = artifacts.read_manifest(folder)
    artifacts.check_files(folder, manifest.all_files())
    if check := CHECKS.get(manifest.type):
        module, function = check.split(":")
        getattr(importlib.import_module(module), function)(Artifact(uri=folder, manifest=manifest))
    return manifest
