"""The evaluate stage: figures over frozen questions, a verdict, answers, a report."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from clozeflow import stages, storage
from clozeflow.artifacts import Artifact
from clozeflow.errors import UserError
from clozeflow.evaluation.config import EvaluateConfig
from clozeflow.evaluation.figures import Tally
from clozeflow.evaluation.gate import Verdict, judge, parse_requirements
from clozeflow.evaluation.guesses import Guesses, count_guesses
from clozeflow.evaluation.models import MaskedLanguageModel, open_model
from clozeflow.evaluation.page import build_page
from clozeflow.evaluation.predict import FillMask
from clozeflow.evaluation.prompts import Prompt, prompts_from_shards
from clozeflow.evaluation.scoring import ask
from clozeflow.shards.source import Source

RESULTS, REPORT = "evaluation.json", "report.html"


def run(config: EvaluateConfig, inputs: Mapping[str, Artifact], output: str) -> stages.Outcome:
    """Evaluates a model on one split of some shards.

    Raises:
        UserError: The shards were made with another tokenizer than the model's, their rows are
            longer than it takes, or the folder is no model.
    """
    artifact, shards = inputs["model"], inputs["shards"]
    check_same_tokenizer(artifact, shards)
    Source.open(shards, config.split)  # refuses a missing split before the model is opened
    model = open_model(artifact.uri)
    check_rows_fit(model, shards)
    guesses = count_guesses(
        shards,
        evaluated_split=config.split,
        is_candidate=model.pieces.is_known & ~model.pieces.is_special,
    )
    tally = Tally(model.pieces, guesses)
    for questions, answers in ask(model, shards, config):
        tally.add(questions, answers)
    if not tally.num_questions:
        raise UserError(
            f"--shards {shards.uri}",
            f"have no words to ask for in the split {config.split!r}",
            fix="Give shards of a corpus with text.",
        )
    verdict = judge(parse_requirements(config.require), tally.figures)
    results = {
        **_description(config, shards, tally, guesses, model),
        "figures": tally.figures,
        **dataclasses.asdict(verdict),
        "prompts": _answered_prompts(config, model, shards),
    }
    _write(output, results, _training_curve(artifact))
    return _outcome(tally.figures, verdict, results)


def check_same_tokenizer(model: Artifact, shards: Artifact) -> None:
    """Refuses a model that was trained with another tokenizer: ids would mean other words."""
    trained = {ref.name: ref for ref in model.manifest.inputs}.get("tokenizer")
    asked = {ref.name: ref for ref in shards.manifest.inputs}.get("tokenizer")
    if trained and asked and trained.fingerprint != asked.fingerprint:
        raise UserError(
            f"--shards {shards.uri}",
            f"were made with another tokenizer than --model {model.uri}",
            got=asked.fingerprint[:19],
            expected=trained.fingerprint[:19],
            fix="Give shards that were made with the model's tokenizer.",
        )


def check_rows_fit(model: MaskedLanguageModel, shards: Artifact) -> None:
    """Refuses rows that the model has no positions, or no embeddings, for."""
    seq_len = int(shards.manifest.properties["seq_len"])
    if seq_len > model.max_tokens:
        raise UserError(
            f"--shards {shards.uri}",
            "have longer rows than the model takes",
            got=f"seq_len {seq_len}",
            expected=f"at most {model.max_tokens}",
            fix=f"Make shards with --seq-len {model.max_tokens} or less.",
        )
    vocab_size = int(shards.manifest.properties["vocab_size"])
    if vocab_size > model.vocab_size:
        raise UserError(
            f"--shards {shards.uri}",
            "have more ids than the model",
            got=f"vocab_size {vocab_size}",
            expected=f"at most {model.vocab_size}",
            fix="Give shards that were made with the model's tokenizer.",
        )


def _description(
    config: EvaluateConfig,
    shards: Artifact,
    tally: Tally,
    guesses: Guesses,
    model: MaskedLanguageModel,
) -> dict[str, Any]:
    """What was asked: two evaluations that agree in it had the same questions."""
    return {
        "shards": shards.manifest.fingerprint,
        "split": config.split,
        "masking_rate": config.masking_rate,
        "seed": config.seed,
        "num_examples": shards.manifest.splits[config.split].counts["num_examples"],
        "num_questions": tally.num_questions,
        "most_frequent_token": model.pieces.word(guesses.most_frequent_token),
        "guesses_counted_on": guesses.split,
        "guesses_counted_tokens": int(guesses.counts.sum()),
    }


def _answered_prompts(
    config: EvaluateConfig, model: MaskedLanguageModel, shards: Artifact
) -> list[dict[str, Any]]:
    prompts = [Prompt(text=text) for text in config.prompts] or prompts_from_shards(
        model, shards, split=config.split, seed=config.seed
    )
    answers = FillMask(model)([prompt.text for prompt in prompts], top_k=config.top_k)
    return [
        {
            **dataclasses.asdict(prompt),
            "answers": [
                {"mask": a.mask, "token": a.token, "probability": round(a.probability, 6)}
                for a in found
            ],
        }
        for prompt, found in zip(prompts, answers, strict=True)
    ]


def _training_curve(model: Artifact) -> list[dict[str, Any]]:
    """The steps that training logged, or none for a model that brings no log."""
    location = model.path("training.jsonl")
    if not storage.is_file(location):
        return []
    lines = [json.loads(line) for line in storage.read_text(location).splitlines() if line]
    return [line for line in lines if "step" in line and "loss" in line]


def _write(output: str, results: dict[str, Any], curve: list[dict[str, Any]]) -> None:
    text = json.dumps(results, indent=1, ensure_ascii=False)
    storage.write_text(storage.join(output, RESULTS), text + "\n")
    storage.write_text(storage.join(output, REPORT), build_page(results, curve).to_html())


def _outcome(
    figures: Mapping[str, float], verdict: Verdict, results: Mapping[str, Any]
) -> stages.Outcome:
    kept = ("split", "num_examples", "num_questions", "most_frequent_token")
    return stages.Outcome(
        properties={
            **{name: results[name] for name in kept},
            "verdict": "; ".join(verdict.reasons),
        },
        metrics=figures,
        parameters={"blessed": verdict.blessed},
        auxiliary=(REPORT,),
    )
