"""Finished work, found again by its key: the same stage, settings, inputs and code.

The cache holds no data: for each key a small file that says where the artifact is. A hit checks
every byte of it and makes the new folder from hard links (copies on another disk).
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from clozeflow import artifacts, storage
from clozeflow.artifacts import Manifest
from clozeflow.errors import UserError

logger = logging.getLogger(__name__)

ENVIRONMENT_VARIABLE = "CLOZEFLOW_CACHE"


class StageCache:
    """An index of the finished artifacts on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def from_environment(cls) -> StageCache | None:
        """The cache that the environment names, or none: only local runs set one."""
        folder = os.environ.get(ENVIRONMENT_VARIABLE)
        return cls(Path(folder)) if folder else None

    def remember(self, key: str, output: str) -> None:
        """Notes where the finished work of this key is, if that is on this machine."""
        if not storage.is_remote(output):
            entry = json.dumps({"uri": str(storage.local_path(output).resolve())})
            storage.write_text(str(self._entry(key)), entry)

    def restore(self, key: str, output: str) -> Manifest | None:
        """Makes `output` from finished work of this key, or returns None if there is none whole."""
        entry = self._entry(key)
        if storage.is_remote(output) or not entry.is_file():
            return None
        source = json.loads(entry.read_text())["uri"]
        try:
            manifest = artifacts.read_manifest(source)
            artifacts.check_files(source, manifest.all_files())
        except UserError as error:
            logger.warning("an earlier result is not used: %s", error)
            entry.unlink(missing_ok=True)
            return None
        target = storage.local_path(output)
        for file in manifest.all_files():
            if not Path(target, file.path).exists():
                storage.link_or_copy(Path(source, file.path), Path(target, file.path))
        artifacts.write_manifest(output, manifest)
        return manifest

    def _entry(self, key: str) -> Path:
        return self.folder / f"{key.removeprefix('sha256:')}.json"
