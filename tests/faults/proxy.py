"""A store that fails: an HTTP proxy before the emulator that spoils some answers, by a seed."""

from __future__ import annotations

import collections
import contextlib
import enum
import http.client
import http.server
import random
import threading
import time
import urllib.parse
from typing import Any


class Fault(enum.StrEnum):
    """What happens to a request."""

    UNAVAILABLE = "503"
    """It is answered with 503, and does not reach the store."""
    LOST = "lost"
    """The connection is closed in place of an answer; the store has done what was asked."""
    SHORT = "short"
    """The answer is cut in the middle."""
    SLOW = "slow"
    """The answer comes after `SLOW_SECONDS`, if it comes at all: the connection is then closed."""


SLOW_SECONDS = 2.0


class FailingStore:
    """A proxy on 127.0.0.1 that forwards to an emulator and spoils a share of the requests.

    Args:
        target: The emulator, `http://127.0.0.1:PORT`.
        seed: With the request's number it decides what happens to it.
        share: Of the requests that are spoilt; 1 for a store that is down.
        faults: Which kinds.
        only: Only requests with this in their path, if given.
    """

    def __init__(
        self,
        target: str,
        *,
        seed: int,
        share: float,
        faults: tuple[Fault, ...] = tuple(Fault),
        only: str = "",
    ) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self._target = urllib.parse.urlsplit(target).netloc
        self._draw, self._lock = random.Random(seed), threading.Lock()
        self._share, self._faults, self._only = share, faults, only
        handler = type("Handler", (_Handler,), {"store": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FailingStore:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def fate(self, path: str) -> Fault | None:
        """What becomes of the next request."""
        with self._lock:
            self.counts["requests"] += 1
            if self._only not in urllib.parse.unquote(path):
                return None
            if self._draw.random() >= self._share:
                return None
            fault = self._draw.choice(self._faults)
            self.counts[fault] += 1
            return fault

    def forward(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, Any, bytes]:
        """The emulator's answer."""
        connection = http.client.HTTPConnection(self._target, timeout=60)
        try:
            connection.request(method, path, body=body, headers=dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: FailingStore

    def _answer(self) -> None:
        body = self._body()
        fault = self.store.fate(self.path)
        if fault is Fault.UNAVAILABLE:
            self._send(503, [("Content-Type", "text/plain")], b"Service Unavailable")
            return
        status, headers, content = self.store.forward(self.command, self.path, self.headers, body)
        if fault in (Fault.LOST, Fault.SLOW):
            if fault is Fault.SLOW:
                time.sleep(SLOW_SECONDS)
            self.close_connection = True
            return
        self._send(status, headers, content, cut=fault is Fault.SHORT)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            del self.headers["Transfer-Encoding"]
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _send(self, status: int, headers: Any, content: bytes, *, cut: bool = False) -> None:
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it was closed there
            self.wfile.write(content[: len(content) // 2] if cut else content)
        self.close_connection = self.close_connection or cut

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = _answer

    def log_message(self, *_: object) -> None:
        """Says nothing."""
