"""What every test shares: quiet TensorFlow, no cache of the user's, no network; a bucket."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import fsspec
import hypothesis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gcp_storage_emulator.server import create_server

# Set before any test module imports TensorFlow or transformers.
os.environ.update(
    TF_USE_LEGACY_KERAS="1",
    TF_CPP_MIN_LOG_LEVEL="2",
    CUDA_VISIBLE_DEVICES="-1",
    HF_HUB_OFFLINE="1",
    USE_TORCH="0",
)

# A slow machine is no fault of what is tested.
hypothesis.settings.register_profile("clozeflow", deadline=None)
hypothesis.settings.load_profile("clozeflow")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg-cache"))
    monkeypatch.delenv("CLOZEFLOW_CACHE", raising=False)


@pytest.fixture
def badly_named_parquet(tmp_path: Path) -> str:
    """A file with a text column and one whose name is no text."""
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"text": ["a <mask>"], "number": [1]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"number", b"\x80umber"))
    return str(path)


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The location of an empty bucket of a store that lives for these tests."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = create_server("127.0.0.1", port, in_memory=True, default_bucket="clozeflow-test")
    patch = pytest.MonkeyPatch()
    patch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
    patch.setitem(fsspec.config.conf, "gs", {"token": "anon"})
    server.start()
    fsspec.filesystem("gs").clear_instance_cache()
    yield "gs://clozeflow-test"
    server.stop()
    fsspec.filesystem("gs").clear_instance_cache()
    patch.undo()
