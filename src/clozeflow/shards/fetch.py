"""The bytes of shards, wherever they are: read here, or fetched ahead into a bounded cache.

Every shard is compared with the manifest before the first of its examples is used.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import os
import threading
import zlib
from pathlib import Path

from clozeflow import storage
from clozeflow.artifacts import Artifact, FileEntry
from clozeflow.errors import UserError

GZIP_SUFFIX = ".gz"
DEFAULT_CACHE_BYTES = 16 << 30
CHECKED_AT_ONCE_BYTES = 4 << 30
"""Read before the first step: some seconds."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardCache:
    """Copies of remote shards on this machine's disk, named by their content.

    Processes may share a folder: a copy appears whole, and what one removes another fetches again.
    """

    folder: Path
    max_bytes: int = DEFAULT_CACHE_BYTES
    """What the folder may hold; the copies used longest ago go first."""
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock, repr=False)

    @classmethod
    def default(cls) -> ShardCache:
        """The cache in the user's cache folder."""
        home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        return cls(folder=Path(home, "clozeflow", "shards"))

    def read(self, location: str, entry: FileEntry) -> bytes:
        """The shard's bytes, from the copy if there is a good one, else fetched and kept."""
        path = self.folder / f"{entry.sha256}.tfrecord"
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return self._fetch(location, entry, path)
        if hashlib.sha256(content).hexdigest() != entry.sha256:
            path.unlink(missing_ok=True)
            return self._fetch(location, entry, path)
        os.utime(path)
        return content

    def _fetch(self, location: str, entry: FileEntry, path: Path) -> bytes:
        content = storage.read_bytes(location)
        check_content(location, entry, content)
        with self._lock:
            self._make_room(len(content))
        if len(content) <= self.max_bytes:
            storage.write_bytes(str(path), content)
        return content

    def _make_room(self, num_bytes: int) -> None:
        copies = []
        for path in self.folder.glob("*.tfrecord"):
            try:
                stat = path.stat()
            except FileNotFoundError:  # another process made room
                continue
            copies.append((stat.st_mtime, stat.st_size, path))
        total = sum(size for _, size, _ in copies) + num_bytes
        for _, size, path in sorted(copies):
            if total <= self.max_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size


def read_shard(shards: Artifact, entry: FileEntry, cache: ShardCache | None = None) -> bytes:
    """The records of a shard, checked against the manifest and unpacked.

    Raises:
        UserError: The file is missing, cut, or has other content.
    """
    location = shards.path(entry.path)
    if storage.is_remote(location):
        content = (cache or ShardCache.default()).read(location, entry)
    else:
        content = storage.read_bytes(location)
        check_content(location, entry, content)
    return unpack(location, content)


def unpack(location: str, content: bytes) -> bytes:
    """The records of a file, decompressed if its name ends in .gz."""
    if not location.endswith(GZIP_SUFFIX):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(location, f"is no whole gzip file: {error}") from None


def check_content(location: str, entry: FileEntry, content: bytes) -> None:
    """Compares a shard's bytes with what the manifest says of them."""
    if len(content) != entry.num_bytes:
        raise _wrong_length(location, len(content), entry)
    if hashlib.sha256(content).hexdigest() != entry.sha256:
        raise damaged(location, "has other content than the manifest says (SHA-256)")


def check_split(shards: Artifact, split: str) -> None:
    """What can be found in the first seconds: a missing or cut file, and a changed local one.

    The content of remote files, and of those beyond `CHECKED_AT_ONCE_BYTES`, is checked when they
    are read.

    Raises:
        UserError: The first file that is not as the manifest says.
    """
    files = shards.manifest.splits[split].files
    for entry in files:
        location = shards.path(entry.path)
        try:
            found = storage.size_bytes(location)
        except FileNotFoundError:
            raise damaged(location, "is missing") from None
        if found != entry.num_bytes:
            raise _wrong_length(location, found, entry)
    num_bytes = 0
    for entry in () if storage.is_remote(shards.uri) else files:
        num_bytes += entry.num_bytes
        if num_bytes > CHECKED_AT_ONCE_BYTES:
            return
        location = shards.path(entry.path)
        check_content(location, entry, storage.read_bytes(location))


def _wrong_length(location: str, found: int, entry: FileEntry) -> UserError:
    return damaged(location, "has another length than the manifest says", found, entry.num_bytes)


def damaged(
    location: str, what: str, got: int | None = None, wanted: int | None = None
) -> UserError:
    """A shard that is not what it was."""
    return UserError(
        location,
        what,
        got=None if got is None else f"{got:,} bytes",
        expected=None if wanted is None else f"{wanted:,} bytes",
        fix="Take it back from a copy, or make the shards again.",
    )
