"""A SavedModel that fills masks: for TensorFlow Serving, or any program without transformers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from clozeflow import storage
from clozeflow.errors import UserError
from clozeflow.evaluation.models import MaskedLanguageModel
from clozeflow.training.heads import masked_logits

TOKENIZER_FOLDER = "assets.extra"
"""Where TensorFlow Serving leaves files alone: the tokenizer's go there."""


def save_for_serving(model: MaskedLanguageModel, output: str, *, top_k: int) -> None:
    """Writes a SavedModel with the tokenizer's files beside it.

    Its signature `serving_default` takes `input_ids` and `attention_mask`, int32 [B, T], with
    special tokens and padding as the tokenizer puts them. It returns, for each of the M mask
    tokens in the batch, `row` and `position` int64 [M], and the `top_k` likeliest `token_ids`
    int32, `tokens` string and `probabilities` float32, [M, k] each.

    Args:
        model: The model.
        output: A folder that does not exist, or is empty; local or remote.
        top_k: Answers to each mask.

    Raises:
        UserError: The folder is not empty, or the vocabulary is smaller than `top_k`.
    """
    known = np.flatnonzero(model.pieces.is_known).astype(np.int32)
    if not 1 <= top_k <= len(known):
        raise UserError(
            "--top-k",
            "is not possible with this vocabulary",
            got=top_k,
            expected=f"1 to {len(known)}",
            fix="Ask for fewer answers.",
        )
    if storage.list_files(output):
        raise UserError(output, "is not empty", fix="Give an --output that is empty or new.")
    module = tf.Module()
    module.network = model.network  # its weights are saved with what holds them
    matrix = tf.TensorSpec([None, None], tf.int32)
    module.fill_mask = tf.function(_fill_mask(model, known, top_k), autograph=False)
    signature = module.fill_mask.get_concrete_function(input_ids=matrix, attention_mask=matrix)
    with storage.output_folder(output) as folder:
        tf.saved_model.save(module, str(folder), signatures=signature)
        _copy_tokenizer(model, folder / TOKENIZER_FOLDER)


def _fill_mask(model: MaskedLanguageModel, known: Any, top_k: int) -> Callable[..., Any]:
    names = tf.constant(model.pieces.names)

    def fill_mask(input_ids: Any, attention_mask: Any) -> dict[str, Any]:
        places = tf.where(input_ids == model.mask_token_id)  # [M, 2], row by row
        num_rows = tf.shape(input_ids, out_type=tf.int64)[0]
        by_row = tf.RaggedTensor.from_value_rowids(places[:, 1], places[:, 0], nrows=num_rows)
        positions = tf.cast(by_row.to_tensor(0), tf.int32)  # [B, P]
        logits = masked_logits(model.network, input_ids, attention_mask, positions, training=False)
        is_mask = tf.sequence_mask(by_row.row_lengths(), tf.shape(positions)[1])
        probabilities = tf.nn.softmax(tf.cast(tf.boolean_mask(logits, is_mask), tf.float32))
        values, best = tf.math.top_k(tf.gather(probabilities, known, axis=1), k=top_k)
        token_ids = tf.gather(known, best)
        return {
            "row": places[:, 0],
            "position": places[:, 1],
            "token_ids": token_ids,
            "tokens": tf.gather(names, token_ids),
            "probabilities": values,
        }

    return fill_mask


def _copy_tokenizer(model: MaskedLanguageModel, folder: Path) -> None:
    folder.mkdir()
    with storage.local_folder(model.folder) as source:
        for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
            if (source / name).is_file():
                shutil.copyfile(source / name, folder / name)
