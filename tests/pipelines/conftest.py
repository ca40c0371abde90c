"""A Vertex AI of our own."""

import pytest
from google.auth.credentials import AnonymousCredentials

from pipelines.vertex import Place
from tests.pipelines.fake_vertex import FakeVertex


@pytest.fixture
def fake(monkeypatch):
    """The server; Cloud Storage's client talks to it too."""
    server = FakeVertex()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
    yield server
    server.close()


@pytest.fixture
def place(fake):
    """The server as a place to send jobs to."""
    return Place(
        project="p",
        location="us-central1",
        endpoint=fake.url,
        credentials=AnonymousCredentials(),
    )
