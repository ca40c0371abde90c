"""The examples of Shards as rows: their ids go to the model as they are, and are never text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from clozeflow.artifacts import Artifact
from clozeflow.errors import UserError
from clozeflow.evaluation.checks import check_rows_fit, check_same_tokenizer
from clozeflow.evaluation.embed import Embedder
from clozeflow.evaluation.models import MaskedLanguageModel
from clozeflow.evaluation.rows import ROWS_AT_ONCE, Row
from clozeflow.evaluation.windows import Window
from clozeflow.shards.source import Source


def check_shards(model: Artifact, opened: MaskedLanguageModel, shards: Artifact) -> None:
    """Refuses shards that the model cannot read.

    Raises:
        UserError: They were made with another tokenizer, or their rows are too long.
    """
    check_same_tokenizer("model", model, shards, flag="--dataset")
    check_rows_fit(opened, shards)


def num_examples(shards: Artifact) -> dict[str, int]:
    """The number of examples of each file of every split."""
    return {
        shards.path(file.path): file.counts["num_examples"]
        for split in shards.manifest.splits.values()
        for file in split.files
    }


def embed_examples(
    embedder: Embedder, shards: Artifact, location: str, *, first: int, count: int
) -> Iterator[list[Row]]:
    """Some examples of one file: `split`, `file`, `row`, `input_ids` and `vector`, in batches.

    Args:
        embedder: The model.
        shards: The shards.
        location: The file.
        first: The first example's number in the file.
        count: How many.
    """
    split, index = _place(shards, location)
    source = Source.open(shards, split)
    for start in range(first, first + count, ROWS_AT_ONCE):
        rows = np.arange(start, min(start + ROWS_AT_ONCE, first + count))
        input_ids, attention_mask = source.read(index, rows)
        windows = [
            _window(embedder.model, n, ids[mask == 1])
            for n, (ids, mask) in enumerate(zip(input_ids, attention_mask, strict=True))
        ]
        vectors = embedder.of_windows(windows, num_texts=len(rows))
        yield [
            {
                "split": split,
                "file": source.files[index].path,
                "row": int(row),
                "input_ids": list(window.token_ids),
                "vector": vector,
            }
            for row, window, vector in zip(rows, windows, vectors.tolist(), strict=True)
        ]


def _place(shards: Artifact, location: str) -> tuple[str, int]:
    for split, content in shards.manifest.splits.items():
        for index, file in enumerate(content.files):
            if shards.path(file.path) == location:
                return split, index
    raise UserError(location, "is no file of the shards", fix="Make the predictions again.")


def _window(model: MaskedLanguageModel, index: int, ids: np.ndarray) -> Window:
    """An example without its padding; only ordinary tokens count for its vector."""
    return Window(
        text_index=index,
        token_ids=tuple(ids.tolist()),
        positions=tuple(np.flatnonzero(~model.pieces.is_special[ids]).tolist()),
        masks=(),
        seen=(0, 0),
    )
