"""Local and `gs://` paths under one set of verbs.

A location is a string: a local path, or a URL that fsspec opens (`gs://bucket/folder`).
Object stores have no folders, so nothing here asks whether a folder exists: only files do.
Files appear whole or not at all: they are written under a temporary name and renamed
(an object store publishes an object only when its upload ends).
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import shutil
import tempfile
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import fsspec

from clozeflow import remote
from clozeflow.errors import UserError

TEMPORARY_PREFIX = ".tmp-"
_TEMPORARY = re.compile(re.escape(TEMPORARY_PREFIX) + "[a-z0-9_]{8}")
"""As `mkstemp` names files with that prefix."""

# gcsfs asks for each bucket's kind by gRPC and logs a traceback for every attempt that fails.
os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
logging.getLogger("gcsfs").setLevel(logging.CRITICAL)


def is_remote(location: str) -> bool:
    """Whether the location is a URL of an object store, and not a path of this machine."""
    return "://" in location and not location.startswith("file://")


def join(folder: str, *names: str) -> str:
    """`folder/name/…`, for local and remote folders alike."""
    return "/".join([folder.rstrip("/") or "/", *names]) if names else folder


def local_path(location: str) -> Path:
    """The path of a local location; a programming error for a remote one."""
    assert not is_remote(location), location
    return Path(location.removeprefix("file://"))


def filesystem(location: str) -> tuple[Any, str]:
    """Fsspec's file system for the location, and the location's path within it.

    Raises:
        UserError: There is no such kind of storage here, or no way to it.
    """
    if not is_remote(location):
        return fsspec.core.url_to_fs(str(local_path(location)))
    options: dict[str, Any] = {}
    if urllib.parse.urlsplit(location).scheme in ("gs", "gcs"):
        remote.check_way_to_google(location)
        options["requests_timeout"] = remote.timeout(remote.STALLED_SECONDS)
    try:
        return fsspec.core.url_to_fs(location, **options)
    except (ImportError, ValueError) as error:
        raise UserError(
            location,
            f"this kind of storage cannot be opened: {error}",
            expected="a local path or gs://…",
            fix="Give one of these, or install fsspec's package for the other.",
        ) from None


@remote.names_its_object
def is_file(location: str) -> bool:
    """Whether a file, or an object, has exactly this name."""
    fs, path = filesystem(location)
    if not is_remote(location):
        return bool(fs.isfile(path))
    try:
        # fsspec's own `isfile` takes a store that fails for one without the object.
        return fs.info(path)["type"] == "file"
    except FileNotFoundError:
        return False


@remote.names_its_object
def size_bytes(location: str) -> int:
    """The size of a file."""
    fs, path = filesystem(location)
    return int(fs.size(path))


def open_read(location: str) -> IO[bytes]:
    """Opens a file for reading bytes; a missing one is a `UserError`."""
    fs, path = filesystem(location)
    try:
        with remote.reaching(location):
            file = fs.open(path, "rb")
        return cast(IO[bytes], remote.RemoteFile(file, location)) if is_remote(location) else file
    except FileNotFoundError:
        raise UserError(location, "there is no such file", fix="Check the path.") from None
    except PermissionError:
        raise UserError(location, "may not be read", fix="Check the file's rights.") from None


def read_bytes(location: str) -> bytes:
    """The whole content of a file."""
    with open_read(location) as file:
        return file.read()


def read_text(location: str) -> str:
    """The whole content of a UTF-8 file."""
    return read_bytes(location).decode("utf-8")


@contextlib.contextmanager
def atomic_writer(location: str) -> Iterator[IO[bytes]]:
    """A file opened for writing that appears at `location` when the block ends well.

    An exception in the block leaves nothing behind, and an older file of that name as it was.
    """
    with atomic_path(location) as path, path.open("wb") as file:
        yield file


@contextlib.contextmanager
def atomic_path(location: str) -> Iterator[Path]:
    """A local path to write to; what is there when the block ends well appears at `location`.

    For libraries that want a file's name. Remote locations are uploaded from a local file.
    """
    with _temporary_path(location) as path:
        yield path
        with path.open("rb") as file:
            os.fsync(file.fileno())
        if is_remote(location):
            _upload_to(location, path)
        else:
            os.replace(path, local_path(location))


@remote.names_its_object
def _upload_to(location: str, path: Path) -> None:
    fs, name = filesystem(location)
    fs.put_file(str(path), name)


@contextlib.contextmanager
def _temporary_path(location: str) -> Iterator[Path]:
    folder = None if is_remote(location) else str(local_path(location).parent)
    try:
        if folder:
            os.makedirs(folder, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=TEMPORARY_PREFIX, dir=folder)
        os.close(handle)
        os.chmod(name, 0o644)
    except OSError as error:
        raise write_error(location, error) from error
    try:
        with refusals_in_words(location):
            yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


_REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO)
"""Of a disk that is full, mounted for reading, or broken."""


@contextlib.contextmanager
def refusals_in_words(location: str) -> Iterator[None]:
    """Turns a disk's refusal to take more into the user's error that it is, whoever met it.

    Libraries that write by themselves (safetensors, HDF5, TensorFlow) have exceptions of their
    own, with the system's words in them.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        number = _refusal(error)
        if number is None:
            raise
        raise write_error(location, OSError(number, os.strerror(number))) from error


def _refusal(error: Exception) -> int | None:
    if isinstance(error, OSError) and error.errno in _REFUSALS:
        return error.errno
    text = str(error)
    return next((number for number in _REFUSALS if os.strerror(number) in text), None)


def write_error(location: str, error: OSError) -> UserError:
    """An operating system's refusal to write, in words."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return UserError(
            location,
            "the disk is full",
            fix="Make room and run the same command again: it goes on where it stopped.",
        )
    return UserError(
        location,
        f"cannot be written: {error.strerror or error}",
        fix="Check the path and the folder's rights.",
    )


def write_bytes(location: str, content: bytes) -> None:
    """Writes a whole file, atomically."""
    with atomic_writer(location) as file:
        file.write(content)


def write_text(location: str, content: str) -> None:
    """Writes a whole UTF-8 file, atomically."""
    write_bytes(location, content.encode("utf-8"))


@remote.names_its_object
def list_files(folder: str) -> list[str]:
    """Every file below the folder, as sorted relative paths; temporary files are left out."""
    fs, root = filesystem(folder)
    root = root.rstrip("/")
    found = [path.removeprefix(root).lstrip("/") for path in fs.find(root)]
    return sorted(p for p in found if not p.rsplit("/", 1)[-1].startswith(TEMPORARY_PREFIX))


@remote.names_its_object
def list_sizes(folder: str) -> dict[str, int]:
    """Every file below the folder with its size in bytes, hidden files and folders left out."""
    fs, root = filesystem(folder)
    root = root.rstrip("/")
    found = fs.find(root, detail=True)
    sizes = {path.removeprefix(root).lstrip("/"): int(i["size"]) for path, i in found.items()}
    return {
        path: size
        for path, size in sorted(sizes.items())
        if not any(name.startswith(".") for name in path.split("/"))
    }


def remove_temporaries(folder: str) -> None:
    """Removes the half-written files that a killed run left; nobody may be writing there."""
    if not is_remote(folder):
        for path in local_path(folder).rglob(f"{TEMPORARY_PREFIX}*"):
            if _TEMPORARY.fullmatch(path.name):
                path.unlink(missing_ok=True)


@remote.names_its_object
def glob(pattern: str) -> list[str]:
    """The files that match a pattern, sorted, as locations of the pattern's own kind."""
    fs, path = filesystem(pattern)
    return sorted(unstrip(pattern, match) for match in fs.glob(path) if fs.isfile(match))


def unstrip(like: str, path: str) -> str:
    """A file system's path as a location with the scheme of `like`."""
    if not is_remote(like):
        return path
    return f"{urllib.parse.urlsplit(like).scheme}://{path}"


def move_file(source: str, target: str) -> None:
    """Gives a file another name in the same store; a file of that name is replaced."""
    fs, path = filesystem(source)
    _, target_path = filesystem(target)
    if is_remote(source):
        with remote.reaching(target):
            fs.cp_file(path, target_path)  # within the store: no byte comes here
        remove_file(source)
        return
    try:
        os.makedirs(os.path.dirname(target_path), exist_ok=True)
        os.replace(path, target_path)
    except OSError as error:
        raise write_error(target, error) from error


def copy_file(source: str, target: str) -> None:
    """Makes a file's content appear under another name, wherever the two are."""
    if not is_remote(source) and not is_remote(target):
        remove_file(target)
        try:
            link_or_copy(local_path(source), local_path(target))
        except OSError as error:
            raise write_error(target, error) from error
        return
    with open_read(source) as file, atomic_writer(target) as copy:
        shutil.copyfileobj(file, copy, 1 << 20)


@remote.names_its_object
def remove_file(location: str) -> None:
    """Removes a file if it is there."""
    fs, path = filesystem(location)
    with contextlib.suppress(FileNotFoundError):
        fs.rm_file(path)


@remote.names_its_object
def remove_folder(folder: str) -> None:
    """Removes a folder and all that is in it, if it is there."""
    fs, path = filesystem(folder)
    with contextlib.suppress(FileNotFoundError):
        fs.rm(path, recursive=True)


@contextlib.contextmanager
def local_folder(folder: str) -> Iterator[Path]:
    """A local folder with the content of `folder`: itself, or a temporary copy of a remote one."""
    if not is_remote(folder):
        yield local_path(folder)
        return
    with tempfile.TemporaryDirectory(prefix="clozeflow-") as copy:
        for name in list_files(folder):
            target = Path(copy, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            fs, path = filesystem(join(folder, name))
            with remote.reaching(join(folder, name)):
                fs.get_file(path, str(target))
        yield Path(copy)


@contextlib.contextmanager
def output_folder(folder: str) -> Iterator[Path]:
    """A local folder to write to, for libraries that know only local paths.

    A local folder is itself (made if need be). What was written for a remote one is uploaded
    when the block ends well.
    """
    if not is_remote(folder):
        try:
            os.makedirs(local_path(folder), exist_ok=True)
        except OSError as error:
            raise write_error(folder, error) from error
        yield local_path(folder)
        return
    with tempfile.TemporaryDirectory(prefix="clozeflow-") as copy:
        yield Path(copy)
        for name in list_files(copy):
            _upload_to(join(folder, name), Path(copy, name))


def link_or_copy(source: Path, target: Path) -> None:
    """Makes `target` the same file as `source`: a hard link where the disk allows, else a copy."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
