"""An exported model in transformers 5 with torch: an environment of its own (`make torch-env`)."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from clozeflow.evaluation.models import open_model
from clozeflow.evaluation.predict import FillMask
from clozeflow.training.export import export_model
from tests.evaluation import fixtures

ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("CLOZEFLOW_TORCH_PYTHON", ROOT / ".venv-torch" / "bin" / "python"))
NUM_KNOWN = 300
"""Fewer than each of the tokenizers has."""
PROMPTS = (
    "The <mask> of the United States",
    "Our country is <mask>.",
    "<mask> citizens, of the House",
    "Größe, “quoted” and  two spaces <mask>",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.is_file(), reason=f"no {PYTHON}: run make torch-env"),
]


@pytest.mark.parametrize("algorithm", ["unigram", "bpe", "wordpiece"])
def test_torch_answers_as_tensorflow_does(algorithm, request, tmp_path):
    tokenizer = request.getfixturevalue(
        {"unigram": "tokenizer", "bpe": "bpe", "wordpiece": "wordpiece"}[algorithm]
    )
    folder = tmp_path / "model"
    folder.mkdir()
    network = trained_like()
    export_model(network, folder, tokenizer_folder=Path(tokenizer.uri), seq_len=fixtures.SEQ_LEN)
    write_expected(folder, tmp_path / "expected")
    done = subprocess.run(
        [PYTHON, ROOT / "tests" / "torch_check.py", folder, tmp_path / "expected"],
        env={**os.environ, "PYTHONPATH": "", "USE_TORCH": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "transformers 5." in done.stdout
    assert f"{len(PROMPTS)} texts are answered alike" in done.stdout


def trained_like():
    """A network that never answers with an id that the tokenizer does not have.

    Training teaches that at once; transformers' pipeline, other than ours, would show such ids.
    """
    network = fixtures.new_network()
    (bias,) = (v for v in network.trainable_variables if "lm_head/bias" in v.name)
    bias.assign(np.where(np.arange(fixtures.MODEL_VOCAB_SIZE) < NUM_KNOWN, 0.0, -50.0))
    return network


def write_expected(folder: Path, expected: Path) -> None:
    """What our own code, with TensorFlow, says of the model in the folder."""
    expected.mkdir()
    model = open_model(str(folder))
    rng = np.random.default_rng(0)
    input_ids = rng.integers(5, 700, size=(6, fixtures.SEQ_LEN)).astype(np.int32)
    lengths = np.array([fixtures.SEQ_LEN, 3, 17, fixtures.SEQ_LEN, 9, 25])
    attention_mask = (np.arange(fixtures.SEQ_LEN) < lengths[:, None]).astype(np.int32)
    input_ids[attention_mask == 0] = model.pad_token_id
    logits = model.network(input_ids, attention_mask=attention_mask).logits.numpy()
    for name, array in (
        ("input_ids", input_ids),
        ("attention_mask", attention_mask),
        ("logits", logits),
    ):
        np.save(expected / f"{name}.npy", array)
    answers = [
        {
            "text": text,
            "token_ids": [answer.token_id for answer in found],
            "probabilities": [answer.probability for answer in found],
        }
        for text, found in zip(PROMPTS, FillMask(model)(PROMPTS, top_k=5), strict=True)
    ]
    (expected / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
