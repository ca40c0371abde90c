"""The Model Registry, by a server that parses what it gets as the real messages."""

import http.server
import json
import re
import threading
import urllib.parse

import pytest
import requests
from google.cloud import aiplatform_v1 as v1
from google.protobuf import json_format

from clozeflow import credentials, storage
from clozeflow.errors import UserError
from clozeflow.publishing import checks, stage, vertex
from clozeflow.publishing.destinations import RegistryModel
from clozeflow.publishing.stage import write_serving

MODEL = RegistryModel(project="p", location="us-central1", model="cloze")


class FakeRegistry:
    """Models and their versions, in memory; every upload is an operation that ends when asked."""

    def __init__(self):
        self.versions, self.requests, self.refuse = [], [], None
        handler = type("Handler", (_Handler,), {"registry": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method, path, query, body):
        self.requests.append((method, path))
        if self.refuse:
            return 403, {"error": {"message": self.refuse}}
        if method == "POST" and path == f"/v1/{MODEL.parent}/models:upload":
            return self._upload(json_format.Parse(body, v1.UploadModelRequest()._pb))
        if path == "/v1/operations/1":
            number = str(len(self.versions))
            answer = {"model": MODEL.name, "modelVersionId": number}
            return 200, {"name": "operations/1", "done": True, "response": answer}
        if not self.versions:
            return 404, {"error": {"message": "not found"}}
        if path.endswith(":listVersions"):
            return 200, {"models": self._matching(query["filter"][0])}
        return 200, {"name": MODEL.name}

    def _upload(self, request):
        assert request.parent_model == (MODEL.name if self.versions else "")
        assert request.model_id == ("" if self.versions else MODEL.model)
        self.versions.append(json_format.MessageToDict(request.model))
        return 200, {"name": "operations/1"}

    def _matching(self, text):
        name, value = re.fullmatch(r'labels\.(\w+)="(\w+)"', text).groups()
        return [
            {**version, "versionId": str(number)}
            for number, version in enumerate(self.versions, 1)
            if version["labels"].get(name) == value
        ]


class _Handler(http.server.BaseHTTPRequestHandler):
    registry: FakeRegistry

    def _answer(self):
        url = urllib.parse.urlparse(self.path)
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        query = urllib.parse.parse_qs(url.query)
        code, value = self.registry.answer(self.command, url.path, query, body)
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())

    do_GET = do_POST = _answer

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    fake = FakeRegistry()
    monkeypatch.setattr(vertex, "_POLL_SECONDS", 0.01)
    yield fake
    fake.close()


def register(server, fingerprint):
    registry = vertex.Registry(requests.Session(), "us-central1", server.url)
    return registry.find_version(MODEL, fingerprint) or registry.register(
        MODEL,
        artifact_uri="gs://bucket/serving",
        serving_image="image",
        fingerprint=fingerprint,
        description="a model",
    )


def test_each_publication_is_a_version_and_the_same_one_is_found(server):
    first = register(server, "sha256:" + "a" * 64)
    assert first.revision == f"{MODEL.name}@1"
    assert "/models/cloze/versions/1?project=p" in first.url
    (version,) = server.versions
    assert version["artifactUri"] == "gs://bucket/serving"
    assert version["containerSpec"] == {"imageUri": "image"}
    assert version["displayName"] == "cloze"
    assert register(server, "sha256:" + "a" * 64) == first
    assert register(server, "sha256:" + "b" * 64).revision == f"{MODEL.name}@2"
    assert len(server.versions) == 2


def test_a_refusal_is_said_in_vertexs_words(server):
    server.refuse = "the caller does not have permission"
    with pytest.raises(UserError, match=r"does not have permission \(got HTTP 403\)"):
        register(server, "sha256:a")


def test_a_model_is_served_from_a_bucket_alone(server, model, evaluation, tmp_path):
    with pytest.raises(UserError, match=r"--output .* can serve a model from .*gs://"):
        checks.check_destinations([MODEL], str(tmp_path))
    assert server.requests == []


def test_the_saved_model_is_written_before_it_is_registered(server, model, monkeypatch):
    written = []
    monkeypatch.setattr(stage, "write_serving", lambda model, folder: written.append(folder))
    registry = vertex.Registry(requests.Session(), "us-central1", server.url)
    config = stage.PublishConfig()
    for _ in range(2):
        place = stage.register(model, MODEL, registry, config, "gs://bucket/out")
    assert place.revision.endswith("@1")
    assert written == ["gs://bucket/out/serving"]
    assert server.versions[0]["artifactUri"] == "gs://bucket/out/serving"


def test_a_half_written_saved_model_gives_way(tmp_path):
    from tests.evaluation import fixtures
    from tests.shards import fixtures as shard_fixtures

    corpus = shard_fixtures.small_corpus(tmp_path / "corpus")
    tokenizer = shard_fixtures.make_tokenizer(tmp_path / "t", corpus, algorithm="unigram")
    model = fixtures.model_artifact(tmp_path / "model", tokenizer)
    storage.write_text(str(tmp_path / "serving" / "saved_model.pb"), "half")
    write_serving(model, str(tmp_path / "serving"))
    assert (tmp_path / "serving" / "saved_model.pb").stat().st_size > 1000


def test_a_token_is_read_from_secret_manager(monkeypatch):
    class Session:
        def get(self, url, timeout):
            assert url == (
                "https://secretmanager.googleapis.com/v1/projects/p/secrets/s/versions/3:access"
            )
            response = requests.Response()
            response.status_code = 200
            response._content = b'{"name": "x", "payload": {"data": "aGZfdG9rZW4K"}}'
            return response

    monkeypatch.setattr(credentials, "google_session", Session)
    assert credentials.hub_token("projects/p/secrets/s/versions/3") == "hf_token"


def test_a_secret_that_may_not_be_read_is_named(monkeypatch):
    class Session:
        def get(self, url, timeout):
            response = requests.Response()
            response.status_code = 403
            return response

    monkeypatch.setattr(credentials, "google_session", Session)
    with pytest.raises(UserError, match=r"secrets/s/versions/3: cannot be read \(got HTTP 403\)"):
        credentials.hub_token("projects/p/secrets/s/versions/3")
