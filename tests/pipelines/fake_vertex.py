"""A server that speaks Vertex AI's REST protocol, as far as the client is used here.

It parses every message as the real one: a field that the message does not have is an error.
"""

import http.server
import json
import re
import threading
import urllib.parse

from google.cloud import aiplatform_v1 as v1
from google.protobuf import json_format

BUCKET = "bucket"
State = v1.PipelineState
Task = v1.PipelineTaskDetail


class FakeVertex:
    """Jobs, schedules and metadata, in memory."""

    def __init__(self):
        self.jobs, self.schedules, self.requests = {}, {}, []
        self.stages: list = []  # what a job becomes, one step for each time it is asked for
        self.metadata = {"artifacts": {}, "executions": {}, "contexts": {}}
        self.events = []
        handler = type("Handler", (_Handler,), {"fake": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def sent(self) -> list:
        """The requests that changed something."""
        return [path for method, path in self.requests if method != "GET"]

    def answer(self, method, path, query, body):
        self.requests.append((method, path))
        for pattern, function in self._routes():
            if match := re.fullmatch(pattern, path):
                return function(method, query, body, *match.groups())
        return 404, _error(404, "NOT_FOUND", f"{method} {path}")

    def _routes(self):
        place = r"/v1/(projects/[^/]+/locations/[^/]+)"
        store = place + "/metadataStores/default"
        return [
            (place + "/pipelineJobs", self._all_jobs),
            (place + r"/pipelineJobs/([^/:]+)(:cancel)?", self._one_job),
            (place + "/schedules", self._all_schedules),
            (store + r"/(artifacts)", self._all_metadata),
            (store + r"/(artifacts|contexts)/([^/:]+)", self._one_metadata),
            (store + r"/artifacts/([^/:]+):queryArtifactLineageSubgraph", self._artifact_lineage),
            (store + r"/contexts/([^/:]+):queryContextLineageSubgraph", self._context_lineage),
            (r"(?:/storage/v1)?/b/([^/]+)", self._bucket),
        ]

    def _bucket(self, method, query, body, name):
        if name != BUCKET:
            return 404, _error(404, "NOT_FOUND", "no such bucket")
        return 200, {"kind": "storage#bucket", "name": name, "location": "US-CENTRAL1"}

    def _all_jobs(self, method, query, body, place):
        if method == "GET":
            return 200, {"pipelineJobs": [_plain(job) for job in self.jobs.values()]}
        job = _strict(v1.PipelineJob, body)
        job.name = f"{place}/pipelineJobs/{query['pipelineJobId'][0]}"
        job.state = State.PIPELINE_STATE_PENDING
        self.jobs[job.name] = job
        return 200, _plain(job)

    def _one_job(self, method, query, body, place, name, verb):
        job = self.jobs.get(f"{place}/pipelineJobs/{name}")
        if job is None:
            return 404, _error(404, "NOT_FOUND", f"no job {name}")
        if verb:
            job.state = State.PIPELINE_STATE_CANCELLED
            return 200, {}
        if self.stages:
            self.stages.pop(0)(job)
        return 200, _plain(job)

    def _all_schedules(self, method, query, body, place):
        schedule = _strict(v1.Schedule, body)
        schedule.name = f"{place}/schedules/{len(self.schedules) + 1}"
        self.schedules[schedule.name] = schedule
        return 200, _plain(schedule)

    def _all_metadata(self, method, query, body, place, kind):
        wanted = re.fullmatch(r'uri="(.*)"', query.get("filter", [""])[0])
        entries = self.metadata[kind].values()
        return 200, {kind: [e for e in entries if not wanted or e.get("uri") == wanted[1]]}

    def _one_metadata(self, method, query, body, place, kind, name):
        entry = self.metadata[kind].get(f"{place}/metadataStores/default/{kind}/{name}")
        return (200, entry) if entry else (404, _error(404, "NOT_FOUND", name))

    def _artifact_lineage(self, method, query, body, place, name):
        return 200, self._subgraph()

    def _context_lineage(self, method, query, body, place, name):
        return 200, self._subgraph()

    def _subgraph(self):
        return {
            "artifacts": list(self.metadata["artifacts"].values()),
            "executions": list(self.metadata["executions"].values()),
            "events": self.events,
        }


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeVertex

    def _answer(self):
        url = urllib.parse.urlparse(self.path)
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        query = urllib.parse.parse_qs(url.query)
        try:
            code, value = self.fake.answer(self.command, url.path, query, body)
        except Exception as error:  # a dropped connection would be tried again for minutes
            code, value = 400, _error(400, "INVALID_ARGUMENT", str(error))
        text = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_DELETE = do_PATCH = _answer

    def log_message(self, *arguments):
        pass


def _strict(kind, body):
    message = kind()
    json_format.Parse(body, message._pb)
    return message


def _plain(message):
    return json_format.MessageToDict(message._pb)


def _error(code, status, message):
    return {"error": {"code": code, "status": status, "message": message}}
