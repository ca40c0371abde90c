"""Layers that keep their input alone, and compute the rest again for the gradient."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from clozeflow.errors import UserError
from clozeflow.training.dropout import StatelessDropout


def recompute_layers(model: Any, dropout: StatelessDropout) -> None:
    """Changes a model's encoder layers so that they recompute.

    Args:
        model: A masked language model whose dropout was replaced.
        dropout: The replacement: it must draw in the second computation what it drew in the first.

    Raises:
        UserError: The architecture has no list of layers where BERT has it.
    """
    encoder = getattr(getattr(model, model.base_model_prefix, None), "encoder", None)
    layers = getattr(encoder, "layer", None)
    if not layers:
        raise UserError(
            "--recompute",
            f"does not know where the layers of {type(model).__name__} are",
            fix="Leave --recompute out.",
        )
    for layer in layers:
        layer.call = _Recomputed(layer.call, layer, dropout)


class _Recomputed:
    """Stands for the `call` of one encoder layer."""

    def __init__(self, call: Any, layer: Any, dropout: StatelessDropout) -> None:
        self._call, self._layer, self._dropout = call, layer, dropout

    def __call__(self, hidden_states: Any, *args: Any, training: bool = False, **kw: Any) -> Any:
        if not training:
            return self._call(hidden_states, *args, training=training, **kw)
        first_call = self._dropout.num_calls

        @tf.recompute_grad
        def compute(hidden: Any) -> Any:
            self._dropout.num_calls = first_call
            return self._call(hidden, *args, training=training, **kw)[0]

        return (compute(hidden_states),)
