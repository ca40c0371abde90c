"""The evaluate stage: figures over frozen questions, a verdict, answers, a report."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from clozeflow import stages, storage
from clozeflow.artifacts import Artifact
from clozeflow.errors import UserError
from clozeflow.evaluation.checks import check_rows_fit
from clozeflow.evaluation.config import EvaluateConfig
from clozeflow.evaluation.figures import DIGITS, Tally
from clozeflow.evaluation.gate import FIGURES, Verdict, judge, parse_requirements
from clozeflow.evaluation.guesses import Guesses, count_guesses
from clozeflow.evaluation.likelihood import PseudoLikelihood, pseudo_likelihood
from clozeflow.evaluation.models import MaskedLanguageModel, open_model
from clozeflow.evaluation.neighbours import neighbours
from clozeflow.evaluation.page import build_page, build_summary
from clozeflow.evaluation.predict import FillMask
from clozeflow.evaluation.prompts import Prompt, prompts_from_shards
from clozeflow.evaluation.scoring import ask
from clozeflow.evaluation.slicing import slicings
from clozeflow.evaluation.sources import SourceGroups
from clozeflow.stages import CLASSIFICATION, REPORT, SHORT_REPORT

RESULTS = "evaluation.json"


def run(config: EvaluateConfig, inputs: Mapping[str, Artifact], output: str) -> stages.Outcome:
    """Evaluates a model on one split of some shards, beside a baseline model if one is given.

    Raises:
        UserError: The shards' rows do not fit a model, a folder is no model, or a model's numbers
            are not finite.
    """
    shards = inputs["shards"]
    model = _open(inputs["model"], shards)
    guesses = count_guesses(
        shards, evaluated_split=config.split, is_candidate=model.pieces.is_ordinary
    )
    tally = examine(model, shards, config, guesses)
    likelihood = pseudo_likelihood(model, shards, config)
    figures = _figures(tally, likelihood)
    comparison = _compare(tally, figures, inputs.get("baseline"), shards, config, guesses)
    verdict = judge(parse_requirements(config.require), figures, comparison.get("figures"))
    results = {
        **_description(config, inputs, guesses, model),
        "num_questions": tally.num_questions,
        "figures": figures,
        **_findings(tally),
        "baseline": comparison,
        **dataclasses.asdict(verdict),
        "pseudo_likelihood": {
            "num_examples": likelihood.num_examples,
            "num_questions": likelihood.num_questions,
        },
        "neighbours": neighbours(model, guesses),
        "prompts": _answered_prompts(config, model, shards),
    }
    _write(output, results, _training_curve(inputs["model"]))
    _write_json(output, CLASSIFICATION, {"confidenceMetrics": tally.roc})
    return _outcome(figures, verdict, results)


def examine(
    model: MaskedLanguageModel, shards: Artifact, config: EvaluateConfig, guesses: Guesses
) -> Tally:
    """Asks a model every question."""
    slices = slicings(
        model.pieces,
        guesses,
        SourceGroups.open(shards, config.split),
        seq_len=int(shards.manifest.properties["seq_len"]),
        mask_token_id=model.mask_token_id,
    )
    tally = Tally(model.pieces, guesses, slices, mask_token_id=model.mask_token_id)
    for questions, answers in ask(model, shards, config):
        tally.add(questions, answers)
    if not tally.num_questions:
        raise UserError(
            f"--shards {shards.uri}",
            f"have no words to ask for in the split {config.split!r}",
            fix="Give shards of a corpus with text.",
        )
    return tally


def _open(artifact: Artifact, shards: Artifact) -> MaskedLanguageModel:
    model = open_model(artifact.uri)
    check_rows_fit(model, shards)
    return model


def _figures(tally: Tally, likelihood: PseudoLikelihood) -> dict[str, float]:
    """All figures, in the order of `FIGURES`; those that are not defined are left out."""
    found = {**tally.figures, **likelihood.figures}
    return {name: found[name] for name in FIGURES if name in found}


def _compare(
    tally: Tally,
    own: Mapping[str, float],
    baseline: Artifact | None,
    shards: Artifact,
    config: EvaluateConfig,
    guesses: Guesses,
) -> dict[str, Any]:
    """The baseline's figures and the differences to it, with paired intervals; {} without one."""
    if not baseline:
        return {}
    model = _open(baseline, shards)
    other = examine(model, shards, config, guesses)
    theirs = _figures(other, pseudo_likelihood(model, shards, config))
    return {
        "fingerprint": baseline.manifest.fingerprint,
        "figures": theirs,
        "differences": {
            name: round(own[name] - theirs[name], DIGITS) for name in own if name in theirs
        },
        "difference_intervals": tally.intervals_against(other),
    }


def _description(
    config: EvaluateConfig,
    inputs: Mapping[str, Artifact],
    guesses: Guesses,
    model: MaskedLanguageModel,
) -> dict[str, Any]:
    """What was asked: two evaluations that agree in it, but for the model, can be compared."""
    shards = inputs["shards"].manifest
    return {
        "model": inputs["model"].manifest.fingerprint,
        "shards": shards.fingerprint,
        "split": config.split,
        "masking_rate": config.masking_rate,
        "shown": config.shown,
        "seed": config.seed,
        "num_examples": shards.splits[config.split].counts["num_examples"],
        "most_frequent_token": model.pieces.word(guesses.most_frequent_token),
        "guesses_counted_on": guesses.split,
        "guesses_counted_tokens": int(guesses.counts.sum()),
    }


def _findings(tally: Tally) -> dict[str, Any]:
    return {
        "intervals": tally.intervals,
        "slices": tally.slices,
        "calibration": tally.calibration,
        "mistakes": tally.mistakes,
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
                {"mask": a.mask, "token": a.token, "probability": round(a.probability, DIGITS)}
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
    lines = [json.loads(line) for line in storage.read_text(location).split("\n") if line.strip()]
    return [line for line in lines if "step" in line and "loss" in line]


def _write(output: str, results: dict[str, Any], curve: list[dict[str, Any]]) -> None:
    _write_json(output, RESULTS, results)
    storage.write_text(storage.join(output, REPORT), build_page(results, curve).to_html())
    storage.write_text(storage.join(output, SHORT_REPORT), build_summary(results))


def _write_json(output: str, name: str, value: Mapping[str, Any]) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=False)
    storage.write_text(storage.join(output, name), text + "\n")


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
        auxiliary=(REPORT, SHORT_REPORT),
    )
