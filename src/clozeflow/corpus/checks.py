"""What is refused before anything is read."""

from __future__ import annotations

from collections.abc import Mapping

from clozeflow.artifacts import Artifact
from clozeflow.corpus.config import CorpusConfig
from clozeflow.corpus.languages import check_library


def check_inputs(config: CorpusConfig, inputs: Mapping[str, Artifact], output: str) -> None:
    """Refuses to tell languages where that cannot be done.

    Raises:
        UserError: The library is not installed.
    """
    if config.languages:
        check_library()
