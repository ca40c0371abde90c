"""Weights between TensorFlow and PyTorch, without torch.

transformers 4.55 to 4.57 cannot read a `model.safetensors` into a TensorFlow model: it iterates
over a `safe_open`, which is no iterable (transformers issue 40028). `open_masked_lm` does it here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from transformers import AutoConfig, TFAutoModelForMaskedLM
from transformers.modeling_tf_pytorch_utils import (
    TransposeType,
    convert_tf_weight_name_to_pt_weight_name,
)

TENSORFLOW_WEIGHTS = "tf_model.h5"
PYTORCH_WEIGHTS = "model.safetensors"


def open_masked_lm(folder: Path, model_config: Any = None) -> tuple[Any, list[str]]:
    """A masked language model of transformers, from either kind of weights.

    Args:
        folder: With `config.json` and `model.safetensors` (preferred) or `tf_model.h5`.
        model_config: In place of the folder's.

    Returns:
        The `TF…ForMaskedLM`, and the names of weights that the folder lacks: random in the model.
    """
    if not (folder / PYTORCH_WEIGHTS).is_file():
        model, report = TFAutoModelForMaskedLM.from_pretrained(
            folder, config=model_config, use_safetensors=False, output_loading_info=True
        )
        return model, list(report["missing_keys"])
    model_config = model_config or AutoConfig.from_pretrained(folder)
    model = TFAutoModelForMaskedLM.from_config(model_config)
    model.build_in_name_scope()
    return model, assign_pytorch_weights(
        model, safetensors.numpy.load_file(folder / PYTORCH_WEIGHTS)
    )


def pytorch_weights(model: Any) -> dict[str, np.ndarray]:
    """A TensorFlow model's weights under PyTorch's names and in its layout."""
    weights = {}
    for variable in model.weights:
        name, is_transposed = _pytorch_name(variable)
        assert name not in weights, name
        array = variable.numpy()
        weights[name] = np.ascontiguousarray(array.T if is_transposed else array)
    return weights


def assign_pytorch_weights(model: Any, weights: Mapping[str, np.ndarray]) -> list[str]:
    """The reverse of `pytorch_weights`; returns the names that are not in `weights`.

    Raises:
        ValueError: A weight has another shape than the model's.
    """
    missing = []
    for variable in model.weights:
        name, is_transposed = _pytorch_name(variable)
        array = weights.get(name)
        if array is None:
            missing.append(name)
            continue
        array = array.T if is_transposed else array
        if array.shape != tuple(variable.shape):
            raise ValueError(f"{name} has shape {array.shape}, the model's is {variable.shape}")
        variable.assign(array.astype(np.float32))
    return missing


def _pytorch_name(variable: Any) -> tuple[str, bool]:
    """PyTorch's name of a variable, and whether its matrix is transposed there.

    An encoder has dense layers and embeddings alone: nothing is laid out in a third way.
    """
    name, transpose = convert_tf_weight_name_to_pt_weight_name(
        variable.name, tf_weight_shape=variable.shape
    )
    assert transpose in (TransposeType.NO, TransposeType.SIMPLE), transpose
    return name, transpose is TransposeType.SIMPLE
