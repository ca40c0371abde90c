"""One run at a time in an output folder of this machine."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator

from clozeflow import storage
from clozeflow.errors import UserError


@contextlib.contextmanager
def only_run(output: str) -> Iterator[None]:
    """Keeps other runs out of a folder while the block lasts; the folder is made if need be.

    The system gives the lock back when the process ends, however it ends: a killed run is in
    nobody's way. There is none in an object store, nor where the file system knows no locks:
    two runs there write the same bytes under the same names.

    Raises:
        UserError: Another run is at work there, or the folder cannot be made.
    """
    if storage.is_remote(output):
        yield
        return
    folder = storage.local_path(output)
    try:
        os.makedirs(folder, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise storage.write_error(output, error) from error
    try:
        _lock(handle, output)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, output: str) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise UserError(
                output,
                "another run is at work in this folder",
                fix="Wait until it has ended, or give another --output.",
            ) from None
