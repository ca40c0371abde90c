"""A headless Chromium, spoken to by its own protocol: what a page does when it is opened."""

import contextlib
import dataclasses
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TIMEOUT_SECONDS = 120


def find() -> str:
    """The browser's path; a test that asks for one where there is none is skipped."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    return found or pytest.skip(f"there is no browser here: none of {', '.join(NAMES)}")


@dataclasses.dataclass
class Page:
    """An opened page: what it asked for, what went wrong, and what its scripts say."""

    connection: object
    requests: list[str] = dataclasses.field(default_factory=list)
    problems: list[str] = dataclasses.field(default_factory=list)
    _next_id: int = 0

    def call(self, method: str, **parameters) -> dict:
        """The result of a command; events that come meanwhile are noted."""
        self._next_id += 1
        command = {"id": self._next_id, "method": method, "params": parameters}
        self.connection.send(json.dumps(command))
        while True:
            message = json.loads(self.connection.recv())
            if message.get("id") == self._next_id:
                assert "error" not in message, message
                return message["result"]
            self._note(message)

    def wait_for(self, event: str) -> None:
        """Returns when the event has come."""
        while True:
            message = json.loads(self.connection.recv())
            self._note(message)
            if message.get("method") == event:
                return

    def evaluate(self, expression: str):
        """The value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"]["value"]

    def _note(self, message: dict) -> None:
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method in ("Runtime.exceptionThrown", "Network.loadingFailed"):
            self.problems.append(json.dumps(parameters))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(json.dumps(parameters["entry"]))


@contextlib.contextmanager
def open_page(file: Path, *, width: int, height: int, profile: Path) -> Iterator[Page]:
    """The file in a window of that size, once it has loaded."""
    websocket = pytest.importorskip("websocket")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    origins = "--remote-allow-origins=*"
    command = [find(), *flags, origins, f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        connection = websocket.create_connection(_page_address(profile), timeout=TIMEOUT_SECONDS)
        page = Page(connection)
        for domain in ("Network", "Runtime", "Log", "Page"):
            page.call(f"{domain}.enable")
        page.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        page.call("Page.navigate", url=file.resolve().as_uri())
        page.wait_for("Page.loadEventFired")
        yield page
    finally:
        process.terminate()
        process.wait()


def _page_address(profile: Path) -> str:
    """The web socket of the browser's first tab."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, StopIteration, IndexError):
            port = (profile / "DevToolsActivePort").read_text().split("\n")[0]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
                tabs = json.load(answer)
            return next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
        time.sleep(0.1)
    raise TimeoutError("the browser did not start")
