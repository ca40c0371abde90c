"""What is published: the model's files, its card, its evaluation, and a manifest of them all."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from clozeflow import artifacts, storage
from clozeflow.artifacts import MANIFEST, Artifact, FileEntry

CARD = "README.md"
EVALUATION_FOLDER = "evaluation"
RESULTS, REPORT = "evaluation.json", "report.html"
"""What the evaluate stage calls its files; its module is not imported, as it needs TensorFlow."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class File:
    """A file to be published."""

    entry: FileEntry
    """Its path in the destination, size and hash."""
    source: Path | bytes
    """Its content, or where that is on this machine."""

    def read(self) -> bytes:
        """The whole content."""
        return self.source if isinstance(self.source, bytes) else self.source.read_bytes()


def make_bundle(
    folder: Path, model: Artifact, evaluation: Artifact, *, card: str
) -> Mapping[str, File]:
    """Every file by its path, the manifest last.

    What is published is again an artifact of the model's own fingerprint: the card and the
    evaluation are auxiliary files of it. Paths of this machine are left out of the manifest.

    Args:
        folder: The model's files on this machine.
        model: The model.
        evaluation: Its evaluation.
        card: The model card.

    Raises:
        UserError: A file of the model is not as its manifest says.
    """
    own = [entry for entry in model.manifest.files if entry.path != CARD]
    artifacts.check_files(str(folder), own)
    files = {entry.path: File(entry=entry, source=folder / entry.path) for entry in own}
    for path, content in _additions(evaluation, card).items():
        files[path] = _file(path, content)
    inputs = tuple(
        dataclasses.replace(ref, uri=ref.uri if storage.is_remote(ref.uri) else "")
        for ref in model.manifest.inputs
    )
    manifest = dataclasses.replace(
        model.manifest, files=tuple(file.entry for file in files.values()), inputs=inputs
    )
    assert manifest.fingerprint == model.manifest.fingerprint
    text = json.dumps(manifest.to_dict(), indent=1, ensure_ascii=False) + "\n"
    return {**files, MANIFEST: _file(MANIFEST, text.encode())}


def _additions(evaluation: Artifact, card: str) -> dict[str, bytes]:
    kept = {f"{EVALUATION_FOLDER}/{name}": evaluation.path(name) for name in (RESULTS, REPORT)}
    read = {path: storage.read_bytes(location) for path, location in kept.items()}
    return {CARD: card.encode(), **read}


def _file(path: str, content: bytes) -> File:
    digest = hashlib.sha256(content).hexdigest()
    entry = FileEntry(path=path, num_bytes=len(content), sha256=digest, auxiliary=True)
    return File(entry=entry, source=content)
