"""What every test shares: quiet TensorFlow, no cache of the user's, no network."""

import os
from pathlib import Path

import pytest

# Set before any test module imports TensorFlow or transformers.
os.environ.update(
    TF_USE_LEGACY_KERAS="1",
    TF_CPP_MIN_LOG_LEVEL="2",
    CUDA_VISIBLE_DEVICES="-1",
    HF_HUB_OFFLINE="1",
    USE_TORCH="0",
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg-cache"))
    monkeypatch.delenv("CLOZEFLOW_CACHE", raising=False)
