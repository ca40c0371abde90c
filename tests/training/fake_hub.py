"""A server that speaks the Hub's protocol, as far as pushing a folder goes."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "hf_test"


class FakeHub:
    """Holds what was pushed: a list of commits, each with a message and files."""

    def __init__(self, *, fails: bool = False) -> None:
        self.commits: list[tuple[str, dict[str, bytes]]] = []
        self.created: list[str] = []
        self.fails = fails

    @contextlib.contextmanager
    def serve(self) -> Iterator[str]:
        """The address to give as `HF_ENDPOINT`."""
        hub = self

        class Handler(_Handler):
            pass

        Handler.hub = hub
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()

    def commit(self, lines: list[dict]) -> None:
        """Takes in the lines of a commit: a header, then files."""
        header, *files = lines
        assert header["key"] == "header"
        assert all(line["key"] == "file" for line in files)
        content = {
            line["value"]["path"]: base64.b64decode(line["value"]["content"]) for line in files
        }
        self.commits.append((header["value"]["summary"], content))


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub

    def do_GET(self) -> None:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._answer({"error": "Invalid token"}, status=401)
        elif self.path == "/api/whoami-v2":
            self._answer({"name": "me", "type": "user"})
        else:
            self._answer({"error": "not found"}, status=404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/api/repos/create":
            self.hub.created.append(json.loads(body)["name"])
            self._answer({"url": f"http://{self.headers['Host']}/me/model"})
        elif self.path.endswith("/preupload/main"):
            files = json.loads(body)["files"]
            modes = {"uploadMode": "regular", "shouldIgnore": False}
            self._answer({"files": [{"path": file["path"], **modes} for file in files]})
        elif self.path.endswith("/commit/main") and self.hub.fails:
            self._answer({"error": "not today"}, status=403)
        elif self.path.endswith("/commit/main"):
            self.hub.commit([json.loads(line) for line in body.splitlines()])
            url, oid = f"http://{self.headers['Host']}/me/model", "0" * 40
            self._answer({"commitUrl": f"{url}/commit/{oid}", "commitOid": oid})
        else:  # checks of a model card, and the like
            self._answer({"errors": [], "warnings": []})

    def _answer(self, value: dict, *, status: int = 200) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Says nothing."""
