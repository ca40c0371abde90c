"""The folder that `from_pretrained` opens, in TensorFlow and in PyTorch, with or without torch."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from clozeflow.training.export_check import check_export
from clozeflow.training.weights import PYTORCH_WEIGHTS, pytorch_weights

TOKENIZER_CONFIG = "tokenizer_config.json"
_TOKENIZER_FILES = (
    "tokenizer.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
)


def export_model(model: Any, folder: Path, *, tokenizer_folder: Path, seq_len: int) -> None:
    """Writes configuration, weights (both formats) and tokenizer, and compares the formats.

    Args:
        model: A `TF…ForMaskedLM` of transformers.
        folder: Where to; it must exist.
        tokenizer_folder: Whose files are copied.
        seq_len: The most tokens that the model takes, `<s>` and `</s>` included: the tokenizer
            must tell its users, as positions beyond it are out of range.
    """
    # One file however large: readers without torch know no others.
    model.save_pretrained(folder, safe_serialization=False, max_shard_size="1000GB")
    weights = pytorch_weights(model)
    write_pytorch(weights, folder, tokenizer_folder=tokenizer_folder, seq_len=seq_len)
    check_export(folder, seq_len=seq_len)


def write_pytorch(
    weights: Mapping[str, np.ndarray], folder: Path, *, tokenizer_folder: Path, seq_len: int
) -> None:
    """Writes weights, under PyTorch's names and in its layout, and the tokenizer."""
    content = safetensors.numpy.save(dict(weights), metadata={"format": "pt"})
    (folder / PYTORCH_WEIGHTS).write_bytes(content)
    for name in _TOKENIZER_FILES:
        if (tokenizer_folder / name).is_file():
            shutil.copyfile(tokenizer_folder / name, folder / name)
    settings = json.loads((tokenizer_folder / TOKENIZER_CONFIG).read_text(encoding="utf-8"))
    settings["model_max_length"] = seq_len
    text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    (folder / TOKENIZER_CONFIG).write_text(text, encoding="utf-8")


def write_card(folder: Path, *, facts: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """The model card: what the model is, what made it, and how to use it."""
    table = [f"| {name} | {value} |" for name, value in facts.items()]
    chosen = [f"| `{name}` | {value} |" for name, value in settings.items()]
    lines = [
        "---",
        "library_name: transformers",
        "pipeline_tag: fill-mask",
        "tags:\n- fill-mask\n- clozeflow",
        "---",
        "",
        "# A masked language model, pretrained from scratch by clozeflow",
        "",
        "| | |\n|---|---|",
        *table,
        "",
        "The fingerprints name the data and the tokenizer to the byte; `manifest.json` has the "
        "whole chain.",
        "",
        "## Use",
        "",
        "```python",
        "from transformers import AutoModelForMaskedLM, AutoTokenizer",
        "",
        'tokenizer = AutoTokenizer.from_pretrained("FOLDER")',
        'model = AutoModelForMaskedLM.from_pretrained("FOLDER")',
        "```",
        "",
        "With TensorFlow and without torch (transformers 4): "
        '`TFAutoModelForMaskedLM.from_pretrained("FOLDER", use_safetensors=False)`, '
        "or `clozeflow predict --model FOLDER TEXT`.",
        "",
        "## Training",
        "",
        "![loss and masked accuracy](plots/loss.png)",
        "",
        "| setting | value |\n|---|---|",
        *chosen,
    ]
    (folder / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
