"""An exported folder compared with itself: both formats of the weights give the same answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clozeflow.errors import UserError
from clozeflow.training.weights import PYTORCH_WEIGHTS, TENSORFLOW_WEIGHTS, open_masked_lm

TOLERANCE = 1e-4
_NUM_ROWS, _MAX_TOKENS = 2, 32


def check_export(folder: Path, *, seq_len: int) -> None:
    """Opens the folder as its users will, in either format, and compares the logits.

    The PyTorch file is written and read by our own renaming of weights, the TensorFlow file by
    transformers: a mistake in the one is none in the other.

    Args:
        folder: With `config.json` and both files.
        seq_len: The most tokens that the model takes.

    Raises:
        UserError: A weight is missing, or the logits differ.
    """
    from transformers import TFAutoModelForMaskedLM

    with tf.device("CPU"):
        by_us, missing = open_masked_lm(folder)
        by_transformers = TFAutoModelForMaskedLM.from_pretrained(folder, use_safetensors=False)
        input_ids = _some_ids(by_us.config.vocab_size, min(seq_len, _MAX_TOKENS))
        pair = [_logits(network, input_ids) for network in (by_us, by_transformers)]
    difference = float(np.max(np.abs(pair[0] - pair[1])))
    if missing or not difference <= TOLERANCE:
        raise UserError(
            str(folder),
            f"{PYTORCH_WEIGHTS} and {TENSORFLOW_WEIGHTS} are not the same model",
            got=f"no {missing[0]}" if missing else f"logits that differ by {difference:.1e}",
            expected=f"at most {TOLERANCE:.0e}",
            fix="Run the same command again; if it stays, the disk or a library is at fault.",
        )


def _some_ids(vocab_size: int, seq_len: int) -> npt.NDArray[np.int32]:
    """int32 [B, T]: any ids, always the same."""
    generator = np.random.default_rng(0)
    return generator.integers(5, vocab_size, size=(_NUM_ROWS, seq_len), dtype=np.int32)


def _logits(network: Any, input_ids: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
    logits = network(input_ids, attention_mask=np.ones_like(input_ids), training=False).logits
    return np.asarray(logits, np.float32)
