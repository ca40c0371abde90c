"""Opening a masked language model of transformers, and asking it about masked positions."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clozeflow import storage
from clozeflow.errors import UserError
from clozeflow.evaluation.pieces import Pieces, read_pieces

# Positions count from behind the padding index in these families.
_POSITIONS_BEHIND_PADDING = frozenset(
    {"camembert", "longformer", "mpnet", "roberta", "roberta-prelayernorm", "xlm-roberta"}
)
_NO_LIMIT = 1_000_000
"""A tokenizer with no limit says 1e30."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MaskedLanguageModel:
    """An opened model with its tokenizer."""

    folder: str
    tokenizer: Any
    """A fast tokenizer of transformers."""
    network: Any
    """A `TF…ForMaskedLM` of transformers."""
    max_tokens: int
    """The longest input, special tokens included."""

    @property
    def vocab_size(self) -> int:
        """The length of the logits; the tokenizer's vocabulary may be shorter."""
        return int(self.network.config.vocab_size)

    @functools.cached_property  # transformers looks it up anew each time, which takes 40 µs
    def mask_token_id(self) -> int:
        """The id that stands for a missing token."""
        return int(self.tokenizer.mask_token_id)

    @functools.cached_property
    def pad_token_id(self) -> int:
        """The id that stands behind the end of a shorter row."""
        return int(self.tokenizer.pad_token_id or 0)

    @functools.cached_property
    def pieces(self) -> Pieces:
        """The tokenizer's vocabulary, as text."""
        return read_pieces(self.tokenizer, self.vocab_size)

    @functools.cached_property
    def hidden_states(self) -> Callable[..., Any]:
        """`(input_ids [B, T], attention_mask [B, T]) -> float32 [B, T, H]`, as a graph."""
        encoder = getattr(self.network, self.network.base_model_prefix)

        def hidden_states(input_ids: Any, attention_mask: Any) -> Any:
            return encoder(input_ids=input_ids, attention_mask=attention_mask, training=False)[0]

        return _graph(hidden_states, num_inputs=2)

    @functools.cached_property
    def logits_at(self) -> Callable[..., Any]:
        """`(input_ids [B, T], attention_mask [B, T], positions [B, P]) -> float32 [B, P, V]`.

        A graph that is traced once, whatever the sizes of the batch.
        """
        import tensorflow as tf

        from clozeflow.training.heads import masked_logits

        def logits_at(input_ids: Any, attention_mask: Any, positions: Any) -> Any:
            logits = masked_logits(
                self.network, input_ids, attention_mask, positions, training=False
            )
            return tf.cast(logits, tf.float32)

        return _graph(logits_at, num_inputs=3)


def _graph(function: Callable[..., Any], *, num_inputs: int) -> Callable[..., Any]:
    """A graph of int32 matrices of any size."""
    import tensorflow as tf

    signature = [tf.TensorSpec([None, None], tf.int32)] * num_inputs
    # Nothing here branches on a tensor: AutoGraph would only take seconds to find that out.
    return tf.function(function, input_signature=signature, autograph=False)


def open_model(folder: str) -> MaskedLanguageModel:
    """Opens a model folder, local or remote.

    Raises:
        UserError: It is no model of transformers with a fast tokenizer and a mask token.
    """
    if not storage.is_file(storage.join(folder, "config.json")):
        raise UserError(
            folder,
            "is no model: it does not exist, or has no config.json",
            fix="Give the folder of a trained model.",
        )
    from transformers.utils import logging

    logging.set_verbosity_error()  # what it warns of is checked here
    with storage.local_folder(folder) as local:
        tokenizer = _open_tokenizer(folder, local)
        network = _open_network(folder, local)
    if len(tokenizer) > network.config.vocab_size:
        raise UserError(
            folder,
            "the tokenizer knows more pieces than the model",
            got=len(tokenizer),
            expected=f"at most {network.config.vocab_size}",
            fix="Put the tokenizer that the model was trained with beside it.",
        )
    return MaskedLanguageModel(
        folder=folder,
        tokenizer=tokenizer,
        network=network,
        max_tokens=_max_tokens(tokenizer, network.config),
    )


def _open_tokenizer(folder: str, local: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(local))
    except Exception as error:
        raise UserError(
            folder,
            f"has no tokenizer that transformers opens: {_first_line(error)}",
            fix="Put the tokenizer's files beside the model.",
        ) from error
    if not tokenizer.is_fast or tokenizer.mask_token_id is None:
        lacks = "a tokenizer.json" if not tokenizer.is_fast else "a mask token"
        raise UserError(
            folder,
            f"the tokenizer has not {lacks}",
            fix="Give the folder of a masked language model.",
        )
    return tokenizer


def _open_network(folder: str, local: Path) -> Any:
    from clozeflow.training.weights import open_masked_lm

    try:
        network, missing = open_masked_lm(local)
    except Exception as error:
        raise UserError(
            folder,
            f"has no masked language model that TensorFlow opens: {_first_line(error)}",
            fix="The folder must hold model.safetensors or tf_model.h5.",
        ) from error
    if missing:
        raise UserError(
            folder,
            "lacks weights of a masked language model",
            got=f"no {', '.join(sorted(missing)[:3])}",
            fix="Give a model that was trained to fill masks, with its head.",
        )
    return network


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _max_tokens(tokenizer: Any, config: Any) -> int:
    limits = [tokenizer.model_max_length] if tokenizer.model_max_length < _NO_LIMIT else []
    if positions := getattr(config, "max_position_embeddings", None):
        offset = config.pad_token_id + 1 if config.model_type in _POSITIONS_BEHIND_PADDING else 0
        limits.append(positions - offset)
    return int(min(limits, default=_NO_LIMIT))
