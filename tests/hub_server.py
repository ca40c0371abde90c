"""A server that speaks the Hub's protocol, as far as publishing a model needs it.

whoami, create, preupload, LFS batch, upload and verify, commit, paths-info. It is strict: a large
file is taken only if its bytes have the hash that they were announced with, and a commit only if
every large file that it names is there.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import http.server
import json
import re
import threading
import urllib.parse
from collections.abc import Callable

TOKEN = "hf_right-0123456789"
READ_TOKEN = "hf_reads-0123456789"
Answer = tuple[int, object]
LARGE_BYTES = 10_000


@dataclasses.dataclass
class Repository:
    """A repository: its files, and one commit after another."""

    private: bool
    files: dict[str, bytes] = dataclasses.field(default_factory=dict)
    large: dict[str, str] = dataclasses.field(default_factory=dict)
    commits: list[str] = dataclasses.field(default_factory=lambda: ["0" * 40])
    history: list[tuple[str, dict[str, bytes]]] = dataclasses.field(default_factory=list)
    """Each commit's message, and every file after it."""


class FakeHub:
    """Repositories and large files, in memory, for as long as the server runs."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.objects: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self.interfere: Callable[[str, str], int | None] = lambda method, path: None
        """Called with each request; a number is answered in place of what would be."""
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def uploads(self) -> list[str]:
        """The hashes of the large files that were sent, in order."""
        return [path.removeprefix("/lfs/") for method, path in self.requests if method == "PUT"]

    def answer(self, method: str, path: str, token: str, body: bytes) -> Answer:
        self.requests.append((method, path))
        if status := self.interfere(method, path):
            return status, {"error": "for a while"}
        if not path.startswith("/lfs/") and token not in (TOKEN, READ_TOKEN):
            return 401, {"error": "Invalid username or password."}
        if method == "GET" and path == "/api/whoami-v2":
            role = "write" if token == TOKEN else "read"
            return 200, {"type": "user", "name": "me", "auth": {"accessToken": {"role": role}}}
        for pattern, function in _ROUTES.items():
            if match := re.fullmatch(pattern, f"{method} {path}"):
                value = body if method == "PUT" else _parsed(body)
                return function(self, value, *match.groups())
        return 404, {"error": f"{method} {path}"}

    def create(self, value: dict) -> Answer:
        name = f"{value['organization']}/{value['name']}"
        if name in self.repositories:
            return 409, {"url": f"{self.url}/{name}", "error": "it exists"}
        self.repositories[name] = Repository(private=value["private"])
        return 200, {"url": f"{self.url}/{name}"}

    def info(self, _: object, name: str) -> Answer:
        if name not in self.repositories:
            return 404, {"error": "Repository not found"}
        repository = self.repositories[name]
        return 200, {"id": name, "private": repository.private, "sha": repository.commits[-1]}

    def preupload(self, value: dict, name: str) -> Answer:
        def mode(file: dict) -> str:
            is_text = b"\0" not in base64.b64decode(file["sample"])
            return "regular" if is_text and file["size"] < LARGE_BYTES else "lfs"

        files = [
            {"path": f["path"], "uploadMode": mode(f), "shouldIgnore": False}
            for f in value["files"]
        ]
        return 200, {"files": files}

    def batch(self, value: dict, name: str) -> Answer:
        objects = []
        for wanted in value["objects"]:
            entry = {"oid": wanted["oid"], "size": wanted["size"]}
            if wanted["oid"] not in self.objects:
                upload = {"href": f"{self.url}/lfs/{wanted['oid']}", "header": {}}
                entry["actions"] = {"upload": upload}
            objects.append(entry)
        return 200, {"transfer": "basic", "objects": objects}

    def upload(self, content: bytes, oid: str) -> Answer:
        if hashlib.sha256(content).hexdigest() != oid:
            return 400, {"error": "these are not the bytes that were announced"}
        self.objects[oid] = content
        return 200, {}

    def commit(self, lines: list[dict], name: str) -> Answer:
        repository = self.repositories[name]
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                repository.files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                if value["oid"] not in self.objects:
                    return 400, {"error": f"{value['path']} was not uploaded"}
                repository.files[value["path"]] = self.objects[value["oid"]]
                repository.large[value["path"]] = value["oid"]
        oid = hashlib.sha1(repr(sorted(repository.files.items())).encode()).hexdigest()
        repository.commits.append(oid)
        (message,) = (line["value"]["summary"] for line in lines if line["key"] == "header")
        repository.history.append((message, dict(repository.files)))
        return 200, {"commitUrl": f"{self.url}/{name}/commit/{oid}", "commitOid": oid}

    def paths_info(self, value: dict, name: str, revision: str) -> Answer:
        repository = self.repositories[name]
        assert revision == repository.commits[-1]
        return 200, [
            self._entry(repository, path) for path in value["paths"] if path in repository.files
        ]

    def _entry(self, repository: Repository, path: str) -> dict:
        content = repository.files[path]
        entry = {"type": "file", "path": path, "size": len(content), "oid": "0" * 40}
        if oid := repository.large.get(path):
            entry["lfs"] = {"oid": oid, "size": len(content), "pointerSize": 134}
        return entry


_MODEL = r"/api/models/([^/]+/[^/]+)"
_ROUTES = {
    r"POST /api/repos/create": FakeHub.create,
    r"POST /api/validate-yaml": lambda hub, value: (200, {"errors": [], "warnings": []}),
    rf"GET {_MODEL}": FakeHub.info,
    rf"POST {_MODEL}/preupload/main": FakeHub.preupload,
    r"POST /([^/]+/[^/]+)\.git/info/lfs/objects/batch": FakeHub.batch,
    r"PUT /lfs/([0-9a-f]{64})": FakeHub.upload,
    rf"POST {_MODEL}/commit/main": FakeHub.commit,
    rf"POST {_MODEL}/paths-info/([0-9a-f]{{40}})": FakeHub.paths_info,
}


def _parsed(body: bytes) -> object:
    """JSON, lines of JSON (a commit), or a form (paths-info)."""
    if not body:
        return {}
    if not body.startswith(b"{"):
        return urllib.parse.parse_qs(body.decode())
    values = [json.loads(line) for line in body.split(b"\n") if line.strip()]
    return values if "key" in values[0] else values[0]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub

    def _answer(self) -> None:
        body = self._body()
        token = (self.headers.get("authorization") or "").removeprefix("Bearer ")
        path = urllib.parse.unquote(urllib.parse.urlparse(self.path).path)
        status, value = self.hub.answer(self.command, path, token, body)
        text = b"" if self.command == "HEAD" else json.dumps(value).encode()
        self.send_response(status)
        if status == 404:
            self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _body(self) -> bytes:
        if "chunked" not in (self.headers.get("transfer-encoding") or ""):
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    do_GET = do_POST = do_PUT = do_HEAD = _answer

    def log_message(self, *arguments: object) -> None:
        pass
