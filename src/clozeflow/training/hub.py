"""The model on the Hub while it trains: pushed in the background, and never in training's way."""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clozeflow.credentials import hub_token
from clozeflow.hub_client import HUB_SCHEME, Visibility, make_repository, open_hub
from clozeflow.publishing.destinations import parse_destinations
from clozeflow.training import export
from clozeflow.training.weights import pytorch_weights

if TYPE_CHECKING:
    from huggingface_hub import HfApi

logger = logging.getLogger(__name__)

_SECONDS_FOR_LAST_PUSH = 900.0


class HubPush:
    """Pushes a model to a repository, one push at a time.

    What is due while a push is under way is left out: the next one is newer anyway. A push that
    fails is a warning.

    Args:
        repo: `owner/name`.
        model: What trains.
        tokenizer_folder: On this machine.
        seq_len: The most tokens that the model takes.

    Raises:
        UserError: There is no token, the Hub does not take it, or the repository cannot be made.
    """

    def __init__(self, repo: str, *, model: Any, tokenizer_folder: Path, seq_len: int) -> None:
        self._repo, self._model = repo, model
        self._tokenizer_folder, self._seq_len = tokenizer_folder, seq_len
        self._api = _checked_api(repo)
        self._thread: threading.Thread | None = None

    def push(self, step: int) -> None:
        """Copies the weights now and pushes them in the background."""
        if self._thread and self._thread.is_alive():
            logger.info("step %d is not pushed to the Hub: an earlier one still is", step)
            return
        weights = pytorch_weights(self._model)
        self._start(lambda: self._push_weights(weights, step))

    def finish(self, folder: Path) -> None:
        """Pushes the finished model and waits for it, but not for ever."""
        self._wait()
        self._start(lambda: self._upload(folder, "The finished model"))
        self._wait()

    def _start(self, push: Callable[[], None]) -> None:
        def run() -> None:
            try:
                push()
            except Exception as error:  # the Hub's client raises many kinds
                reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
                logger.warning("push to %s failed; training goes on: %s", self._repo, reason)

        self._thread = threading.Thread(target=run, name="clozeflow-hub", daemon=True)
        self._thread.start()

    def _push_weights(self, weights: Mapping[str, np.ndarray], step: int) -> None:
        with tempfile.TemporaryDirectory(prefix="clozeflow-") as name:
            folder = Path(name)
            self._model.config.save_pretrained(folder)
            export.write_pytorch(
                weights, folder, tokenizer_folder=self._tokenizer_folder, seq_len=self._seq_len
            )
            self._upload(folder, f"Step {step:,}")

    def _upload(self, folder: Path, message: str) -> None:
        self._api.upload_folder(
            repo_id=self._repo,
            folder_path=folder,
            commit_message=message,
            ignore_patterns=[".work/*", "logs/*"],
        )
        logger.info("pushed to %s: %s", self._repo, message)

    def _wait(self) -> None:
        if self._thread:
            self._thread.join(_SECONDS_FOR_LAST_PUSH)
            if self._thread.is_alive():
                logger.warning("the push to %s takes too long and is left behind", self._repo)


def _checked_api(repo: str) -> HfApi:
    """The Hub's client, its token and the repository checked, and the repository made."""
    parse_destinations(HUB_SCHEME + repo)  # refuses what is no OWNER/NAME
    api = open_hub(repo, hub_token(""), Visibility.PRIVATE)
    make_repository(api, repo, Visibility.PRIVATE)
    return api
