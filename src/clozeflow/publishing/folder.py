"""Publishing to a folder: every file copied and compared, the manifest last."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping

from clozeflow import artifacts, storage
from clozeflow.artifacts import MANIFEST
from clozeflow.errors import UserError
from clozeflow.publishing.bundle import File
from clozeflow.publishing.destinations import Folder, Place

logger = logging.getLogger(__name__)


def check_folder(folder: Folder, files: Mapping[str, File]) -> None:
    """Refuses a folder with anything else in it than a part of what is to be published.

    Raises:
        UserError: It holds another finished artifact, or a file of another name or content.
    """
    manifest = storage.join(folder.location, MANIFEST)
    if storage.is_file(manifest) and storage.read_bytes(manifest) != files[MANIFEST].read():
        raise UserError(
            folder.location,
            "holds another model already",
            fix="Give another folder: what was published is not overwritten.",
        )
    found = storage.list_files(folder.location)
    others = [name for name in found if name not in files]
    # A file of ours beside one that is not whole is a copy that was broken off.
    if not any(_is_there(storage.join(folder.location, n), files[n]) for n in files if n in found):
        others = found
    if others:
        raise UserError(
            folder.location,
            "holds files that are not the model's",
            got=", ".join(others[:3]),
            fix="Give a folder that is empty or new.",
        )


def publish_to_folder(folder: Folder, files: Mapping[str, File], *, fingerprint: str) -> Place:
    """Copies what is not there yet; the copies share nothing with the model's own files."""
    storage.remove_temporaries(folder.location)  # of a run that was killed
    for path, file in files.items():
        location = storage.join(folder.location, path)
        if _is_there(location, file):
            continue
        logger.info("%s", location)
        _copy(file, location)
    artifacts.check_files(folder.location, [file.entry for file in files.values()])
    return Place.of(folder, url=folder.location, revision=fingerprint)


def _is_there(location: str, file: File) -> bool:
    if not storage.is_file(location) or storage.size_bytes(location) != file.entry.num_bytes:
        return False
    return artifacts.hash_file(location)[1] == file.entry.sha256


def _copy(file: File, location: str) -> None:
    if isinstance(file.source, bytes):
        storage.write_bytes(location, file.source)
        return
    with file.source.open("rb") as source, storage.atomic_writer(location) as copy:
        shutil.copyfileobj(source, copy, 1 << 20)
