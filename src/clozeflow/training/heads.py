"""Scores at the masked positions alone.

A quarter to a half of a step's work is in the last layer and the head. Only one token in seven
is asked for, and only their scores enter the loss: so the last layer's queries, its feed-forward
layers and the head are computed for them alone. Result and gradients are what the whole model's
would be.

Shape legend: B rows, T tokens in a row, P masked positions in a row, H hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

_MASKED_SCORE = -10000.0
"""What transformers adds to the score of a padded position before the softmax."""


def masked_logits(
    model: Any, input_ids: Any, attention_mask: Any, masked_positions: Any, *, training: bool
) -> Any:
    """The scores of every id at the masked positions.

    Args:
        model: A `TF…ForMaskedLM` of transformers.
        input_ids: int32 [B, T].
        attention_mask: int32 [B, T].
        masked_positions: int32 [B, P].
        training: Whether dropout works.

    Returns:
        float [B, P, V], in the arithmetic of the model's layers.
    """
    forward = _FORWARD.get(model.config.model_type, _whole_model)
    return forward(model, input_ids, attention_mask, masked_positions, training)


def _roberta(
    model: Any, input_ids: Any, attention_mask: Any, positions: Any, training: bool
) -> Any:
    hidden = _encode(model.roberta, input_ids, attention_mask, positions, training)
    return model.lm_head(hidden)


def _bert(model: Any, input_ids: Any, attention_mask: Any, positions: Any, training: bool) -> Any:
    hidden = _encode(model.bert, input_ids, attention_mask, positions, training)
    return model.mlm(sequence_output=hidden)


def _distilbert(
    model: Any, input_ids: Any, attention_mask: Any, positions: Any, training: bool
) -> Any:
    hidden = model.distilbert(input_ids, attention_mask=attention_mask, training=training)[0]
    hidden = model.act(model.vocab_transform(tf.gather(hidden, positions, batch_dims=1)))
    return model.vocab_projector(model.vocab_layer_norm(hidden))


def _whole_model(
    model: Any, input_ids: Any, attention_mask: Any, positions: Any, training: bool
) -> Any:
    """For any other architecture: right, and no faster than the model is."""
    logits = model(input_ids, attention_mask=attention_mask, training=training).logits
    return tf.gather(logits, positions, batch_dims=1)


def _encode(main: Any, input_ids: Any, attention_mask: Any, positions: Any, training: bool) -> Any:
    """The encoder's output at the positions, for models laid out as BERT is: [B, P, H]."""
    hidden = main.embeddings(input_ids=input_ids, training=training)
    is_padding = 1 - tf.cast(attention_mask[:, None, None, :], hidden.dtype)
    scores_mask = is_padding * tf.constant(_MASKED_SCORE, hidden.dtype)  # [B, 1, 1, T]
    *lower_layers, last_layer = main.encoder.layer
    for layer in lower_layers:
        hidden = layer(hidden, scores_mask, None, None, None, None, False, training=training)[0]
    return _layer_at(last_layer, hidden, scores_mask, positions, training)


def _layer_at(layer: Any, hidden: Any, scores_mask: Any, positions: Any, training: bool) -> Any:
    """A layer's output at the positions: they attend to all of `hidden` [B, T, H]."""
    with tf.name_scope("last_layer/attention"):
        queries = tf.gather(hidden, positions, batch_dims=1)
        # transformers calls attention from some tokens to others "cross-attention".
        context = layer.attention.self_attention(
            hidden_states=queries,
            attention_mask=None,
            head_mask=None,
            encoder_hidden_states=hidden,
            encoder_attention_mask=scores_mask,
            past_key_value=None,
            output_attentions=False,
            training=training,
        )[0]
        attended = layer.attention.dense_output(
            hidden_states=context, input_tensor=queries, training=training
        )
    with tf.name_scope("last_layer"):
        widened = layer.intermediate(hidden_states=attended)
        return layer.bert_output(hidden_states=widened, input_tensor=attended, training=training)


_FORWARD: Mapping[str, Callable[..., Any]] = {
    "roberta": _roberta,
    "xlm-roberta": _roberta,
    "camembert": _roberta,
    "bert": _bert,
    "distilbert": _distilbert,
}
