"""What must go together before a model is asked anything."""

from __future__ import annotations

from collections.abc import Mapping

from clozeflow.artifacts import Artifact
from clozeflow.errors import UserError
from clozeflow.evaluation.config import EvaluateConfig
from clozeflow.evaluation.gate import parse_requirements, wants_baseline
from clozeflow.evaluation.models import MaskedLanguageModel
from clozeflow.shards.source import Source


def check_inputs(config: EvaluateConfig, inputs: Mapping[str, Artifact], output: str) -> None:
    """What manifests and shards tell, before any model is opened.

    Raises:
        UserError: The shards have no such split, a model was trained with another tokenizer, there
            are fewer tokens than answers asked for, or a requirement wants a baseline and there is
            none.
    """
    Source.open(inputs["shards"], config.split)
    vocab_size = int(inputs["shards"].manifest.properties["vocab_size"])
    if config.top_k > vocab_size:
        raise UserError(
            "--top-k",
            "is not possible with this vocabulary",
            got=config.top_k,
            expected=f"1 to {vocab_size}",
            fix="Ask for fewer answers.",
        )
    for name in ("model", "baseline"):
        if name in inputs:
            check_same_tokenizer(name, inputs[name], inputs["shards"])
    requirements = parse_requirements(config.require)
    wanting = [requirement.text for requirement in requirements if wants_baseline(requirement)]
    if wanting and "baseline" not in inputs:
        raise UserError(
            "--require",
            "compares with a baseline model, and none is given",
            got=repr(wanting[0]),
            fix="Give --baseline the folder of a model.",
        )


def check_same_tokenizer(
    name: str, model: Artifact, shards: Artifact, *, flag: str = "--shards"
) -> None:
    """Refuses shards of another tokenizer: its ids would mean other words.

    Args:
        name: Which model it is, for the message.
        model: The model.
        shards: The shards.
        flag: What the shards were given as, for the message.

    Raises:
        UserError: With both fingerprints.
    """
    trained = {ref.name: ref for ref in model.manifest.inputs}.get("tokenizer")
    asked = {ref.name: ref for ref in shards.manifest.inputs}.get("tokenizer")
    if trained and asked and trained.fingerprint != asked.fingerprint:
        raise UserError(
            f"{flag} {shards.uri}",
            f"were made with another tokenizer than --{name} {model.uri}",
            got=asked.fingerprint[:19],
            expected=trained.fingerprint[:19],
            fix="Give shards that were made with the model's tokenizer.",
        )


def check_rows_fit(model: MaskedLanguageModel, shards: Artifact) -> None:
    """Refuses rows that the model has no positions, or no embeddings, for.

    Raises:
        UserError: With both numbers.
    """
    seq_len = int(shards.manifest.properties["seq_len"])
    vocab_size = int(shards.manifest.properties["vocab_size"])
    if seq_len > model.max_tokens:
        raise UserError(
            f"--shards {shards.uri}",
            f"have longer rows than the model {model.folder} takes",
            got=f"seq_len {seq_len}",
            expected=f"at most {model.max_tokens}",
            fix=f"Make shards with --seq-len {model.max_tokens} or less.",
        )
    if vocab_size > model.vocab_size:
        raise UserError(
            f"--shards {shards.uri}",
            f"have more ids than the model {model.folder}",
            got=f"vocab_size {vocab_size}",
            expected=f"at most {model.vocab_size}",
            fix="Give shards that were made with the model's tokenizer.",
        )
