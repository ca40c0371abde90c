"""Vectors of texts: the mean of a model's last hidden states over the text's tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from clozeflow.evaluation.batching import batches_of, padded
from clozeflow.evaluation.models import MaskedLanguageModel, open_model
from clozeflow.evaluation.windows import Window, cut_parts


class Embedder:
    """An opened model that turns texts into vectors."""

    def __init__(self, model: str | MaskedLanguageModel) -> None:
        self.model = open_model(model) if isinstance(model, str) else model

    @property
    def hidden_size(self) -> int:
        """The length of a vector."""
        return int(self.model.network.config.hidden_size)

    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Float32 [N, H]: one vector a text.

        Special tokens do not count. A text that is longer than the model is cut into parts, and
        all its tokens count alike; a text of no tokens has a vector of zeros.
        """
        return self.of_windows(list(cut_parts(self.model, texts)), num_texts=len(texts))

    def of_windows(self, windows: Sequence[Window], *, num_texts: int) -> npt.NDArray[np.float32]:
        """Float32 [N, H]: the mean over the positions of all windows of each text."""
        sums = np.zeros((num_texts, self.hidden_size), np.float64)
        counts = np.zeros(num_texts, np.int64)
        for batch in batches_of(windows, self.model.vocab_size):
            inputs = padded(batch, self.model.pad_token_id)
            hidden = self.model.hidden_states(*inputs).numpy()
            for row, part in enumerate(batch):
                sums[part.text_index] += hidden[row, list(part.positions)].sum(axis=0)
                counts[part.text_index] += len(part.positions)
        return (sums / np.maximum(counts, 1)[:, None]).astype(np.float32)
