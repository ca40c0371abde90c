"""Opens a model's folder with torch and compares its answers with TensorFlow's.

    .venv-torch/bin/python tests/torch_check.py MODEL_FOLDER EXPECTED_FOLDER

For an environment with transformers 5 and torch, and without clozeflow. The second folder has
`logits.npy` float32 [B, T, V] for `input_ids.npy` and `attention_mask.npy` [B, T], and
`answers.json`: texts with one mask each, and the ids and probabilities of their best answers.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import AutoModelForMaskedLM, AutoTokenizer, pipeline

TOLERANCE = 1e-4


def main() -> None:
    """Compares logits, then answers; the exit code says whether they agree."""
    folder, expected = sys.argv[1], Path(sys.argv[2])
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")  # noqa: T201
    model, report = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    amiss = {name: sorted(found) for name, found in report.items() if found}
    assert not amiss, f"weights that do not fit: {amiss}"
    assert all(tensor.dtype == torch.float32 for tensor in model.parameters())
    embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
    assert embeddings.weight.data_ptr() == head.weight.data_ptr(), "the weights are not tied"
    check_logits(model.eval(), expected)
    check_answers(folder, expected)


def check_logits(model: torch.nn.Module, expected: Path) -> None:
    """Every logit of every token that is no padding."""
    inputs = {
        name: torch.from_numpy(np.load(expected / f"{name}.npy").astype(np.int64))
        for name in ("input_ids", "attention_mask")
    }
    with torch.no_grad():
        logits = model(**inputs).logits.numpy()
    differences = np.abs(logits - np.load(expected / "logits.npy"))
    largest = differences[inputs["attention_mask"].numpy() == 1].max()
    print(f"logits differ by at most {largest:.1e}")  # noqa: T201
    assert largest <= TOLERANCE


def check_answers(folder: str, expected: Path) -> None:
    """The fill-mask pipeline's answers to texts: tokens, order and probabilities."""
    fill_mask = pipeline("fill-mask", model=folder, tokenizer=AutoTokenizer.from_pretrained(folder))
    prompts = json.loads((expected / "answers.json").read_text(encoding="utf-8"))
    for prompt in prompts:
        found = fill_mask(prompt["text"], top_k=len(prompt["token_ids"]))
        assert [answer["token"] for answer in found] == prompt["token_ids"], prompt["text"]
        scores = np.array([answer["score"] for answer in found])
        assert np.abs(scores - prompt["probabilities"]).max() <= TOLERANCE, prompt["text"]
    print(f"{len(prompts)} texts are answered alike")  # noqa: T201


if __name__ == "__main__":
    main()
