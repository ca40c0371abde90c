"""Stores that fail: what is waited for, what is tried again, and what the user is told.

gcsfs asks a store six times (half a minute) where it is busy, loses a connection or cuts an answer
short. What is left to do here is to wait for no answer for ever, and to say which object it was.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, Self, TypeVar

from clozeflow.errors import UserError

P = ParamSpec("P")
T = TypeVar("T")

GOOGLE_STORAGE = "storage.googleapis.com"
_EMULATOR = "STORAGE_EMULATOR_HOST"
_RESOLVER_SECONDS = 3.0
STALLED_SECONDS = 60.0
"""A store that says nothing for so long is asked again; gcsfs itself would wait for ever."""
_OF_STORES = frozenset({"aiohttp", "fsspec", "gcsfs", "google", "requests", "urllib3"})
"""Packages whose errors are those of a store or of the way to it."""


@contextlib.contextmanager
def reaching(location: str) -> Iterator[None]:
    """Turns a failure of a store into an error that names the object.

    Raises:
        UserError: The store cannot be reached, or refuses; the work may be gone on with later.
    """
    try:
        yield
    except (UserError, FileNotFoundError):
        raise
    except Exception as error:
        if "://" not in location or not _is_of_store(error):
            raise
        said = str(error).strip() or type(error).__name__
        raise UserError(
            location,
            f"the store does not do what is asked, and was asked several times: {said[:300]}",
            fix="Check the network, your rights and the store; then run the same command again: "
            "it goes on where it stopped.",
        ) from error


def _is_of_store(error: Exception) -> bool:
    packages = {kind.__module__.split(".")[0] for kind in type(error).__mro__}
    return bool(packages & _OF_STORES) or isinstance(error, (OSError, TimeoutError))


def names_its_object(verb: Callable[P, T]) -> Callable[P, T]:
    """For verbs whose first argument is a location."""

    @functools.wraps(verb)
    def named(*args: P.args, **kwargs: P.kwargs) -> T:
        with reaching(str(args[0])):
            return verb(*args, **kwargs)

    return named


class RemoteFile:
    """A file of a store, open for reading; its errors name it."""

    def __init__(self, file: Any, location: str) -> None:
        self._file, self._location = file, location

    def read(self, *size: int) -> bytes:
        """As a file's."""
        with reaching(self._location):
            return self._file.read(*size)

    def readinto(self, buffer: Any) -> int:
        """As a file's."""
        with reaching(self._location):
            return self._file.readinto(buffer)

    def readline(self, *size: int) -> bytes:
        """As a file's."""
        with reaching(self._location):
            return self._file.readline(*size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


@functools.cache
def _host_is_known(host: str) -> bool:
    """Whether the host's name has an address; a resolver that does not answer would take long."""
    found: list[Any] = []

    def resolve() -> None:
        with contextlib.suppress(OSError):
            found.extend(socket.getaddrinfo(host, 443))

    thread = threading.Thread(target=resolve, daemon=True)
    thread.start()
    thread.join(_RESOLVER_SECONDS)
    return bool(found)


@functools.cache
def timeout(seconds: float) -> Any:
    """For silence, and not for the whole: a large object may take its time."""
    import aiohttp

    return aiohttp.ClientTimeout(sock_connect=seconds, sock_read=seconds)


def check_way_to_google(location: str) -> None:
    """Fails in the first second where gcsfs would try again for minutes."""
    emulator = os.environ.get(_EMULATOR, "")
    has_proxy = "https" in urllib.request.getproxies()
    if not emulator and not has_proxy and not _host_is_known(GOOGLE_STORAGE):
        raise UserError(
            location,
            "cannot be reached: this machine finds no address of Google Cloud Storage",
            fix=f"Check the network and its proxy settings (or set {_EMULATOR}).",
        )
