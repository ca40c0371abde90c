"""Finished work, found again by its key: the same stage, settings, inputs and code.

The cache holds no data: for each key a small file that says where its artifact is, once for each
folder that holds it. A hit checks every byte and makes the new folder from hard links (copies on
another disk).
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
from pathlib import Path

from clozeflow import artifacts, storage
from clozeflow.artifacts import InputRef, Manifest
from clozeflow.errors import UserError

logger = logging.getLogger(__name__)

ENVIRONMENT_VARIABLE = "CLOZEFLOW_CACHE"

_MAX_PLACES = 8
"""Folders remembered for one key; the oldest are forgotten."""


def default_folder() -> Path:
    """Shared by all runs of this user, or where the environment says."""
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(named) if named else Path(home) / "clozeflow"


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
            places = [place for place in self._places(key) if place != _resolved(output)]
            self._write(key, [_resolved(output), *places[: _MAX_PLACES - 1]])

    def restore(
        self, key: str, output: str, *, inputs: tuple[InputRef, ...], keep: str
    ) -> Manifest | None:
        """Makes `output` from finished work of this key, or returns None if there is none whole.

        Args:
            key: The work's key.
            output: A folder of ours; what an unfinished run left in it gives way.
            inputs: What it is made of, where that is now.
            keep: A folder in it that stays: it tells whose the folder is until the manifest does.
        """
        if storage.is_remote(output):
            return None
        for source in self._places(key):
            try:
                manifest = artifacts.read_manifest(source)
                artifacts.check_files(source, manifest.all_files())
            except UserError as error:
                logger.warning("an earlier result is not used: %s", error)
                self._write(key, [place for place in self._places(key) if place != source])
                continue
            manifest = dataclasses.replace(manifest, inputs=inputs)
            _link(manifest, source, output, keep)
            self.remember(key, output)
            return manifest
        return None

    def _places(self, key: str) -> list[str]:
        """The folders that held the work of this key, the newest first."""
        entry = self._entry(key)
        return json.loads(entry.read_text())["uris"] if entry.is_file() else []

    def _write(self, key: str, places: list[str]) -> None:
        storage.write_text(str(self._entry(key)), json.dumps({"uris": places}))

    def _entry(self, key: str) -> Path:
        return self.folder / f"{key.removeprefix('sha256:')}.json"


def _resolved(output: str) -> str:
    return str(storage.local_path(output).resolve())


def _link(manifest: Manifest, source: str, output: str, keep: str) -> None:
    for name in storage.list_files(output):
        if not name.startswith(f"{keep}/"):
            storage.remove_file(storage.join(output, name))
    for file in manifest.all_files():
        target = storage.local_path(output) / file.path
        storage.link_or_copy(Path(source, file.path), target)
    artifacts.write_manifest(output, manifest)
