"""The export compares itself: two formats, one model."""

from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from clozeflow.errors import UserError
from clozeflow.training.export import export_model
from clozeflow.training.export_check import check_export
from clozeflow.training.weights import PYTORCH_WEIGHTS
from tests.evaluation.fixtures import SEQ_LEN, new_network


@pytest.fixture
def exported(tokenizer, tmp_path) -> Path:
    export_model(
        new_network(vocab_size=256),
        tmp_path,
        tokenizer_folder=Path(tokenizer.uri),
        seq_len=SEQ_LEN,
    )
    return tmp_path


def change(folder: Path, name: str, make) -> None:
    weights = safetensors.numpy.load_file(folder / PYTORCH_WEIGHTS)
    (chosen,) = [key for key in weights if key.endswith(name)]
    array = make(weights.pop(chosen))
    if array is not None:
        weights[chosen] = np.ascontiguousarray(array)
    safetensors.numpy.save_file(weights, folder / PYTORCH_WEIGHTS, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda array: array.T, "logits that differ"),  # square: no shape tells
        (lambda array: array + np.eye(len(array), dtype=np.float32), "logits that differ"),
        (lambda array: None, "got no roberta.encoder.layer.1.attention.self.query.weight"),
    ],
)
def test_formats_that_differ_are_refused(exported, make, message):
    change(exported, "layer.1.attention.self.query.weight", make)
    with pytest.raises(UserError, match=message):
        check_export(exported, seq_len=SEQ_LEN)
