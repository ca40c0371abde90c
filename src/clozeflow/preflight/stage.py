"""The preflight stage: settings in, a report on the step that they make out."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clozeflow import artifacts, stages, storage
from clozeflow.artifacts import SOURCE, Artifact, InputRef
from clozeflow.errors import UserError
from clozeflow.preflight import page
from clozeflow.preflight.answer import Answer
from clozeflow.preflight.compilation import Compilation, Status, TpuCompiler
from clozeflow.preflight.config import PreflightConfig
from clozeflow.preflight.estimate import estimate
from clozeflow.preflight.memory import Verdict
from clozeflow.stages import Outcome

if TYPE_CHECKING:
    from clozeflow.preflight.trials import Trial, Trials

logger = logging.getLogger(__name__)

ANSWER = "preflight.json"


def source_refs(config: PreflightConfig) -> tuple[InputRef, ...]:
    """What shapes the answer besides settings and artifacts: the compiler, a model from outside."""
    refs: tuple[InputRef, ...] = ()
    if config.model_config or config.init_from:
        from clozeflow.training.sources import source_refs as model_refs

        refs = model_refs(config)
    if config.is_asked_for():
        compiler = TpuCompiler.find(time_limit_seconds=config.time_limit_seconds)
        versions = dict(compiler.versions) if isinstance(compiler, TpuCompiler) else {}
        fingerprint = artifacts.fingerprint_of(versions)
        uri = ", ".join(f"{name} {version}" for name, version in versions.items()) or "none"
        refs += (InputRef(name="compiler", type=SOURCE, fingerprint=fingerprint, uri=uri),)
    return refs


def run(config: PreflightConfig, inputs: Mapping[str, Artifact], output: str) -> Outcome:
    """Compiles the step that training would run, and writes what was found out.

    Args:
        config: The settings.
        inputs: `shards` and `tokenizer`, where they are there already.
        output: The report's folder.

    Raises:
        UserError: The step does not fit; or, where the settings demand an answer, there is none.
    """
    answer = find_answer(config, inputs)
    text = "\n".join(answer.lines()) + "\n"
    if answer.verdict is Verdict.UNAVAILABLE:
        logger.warning("warning: %s", text.strip())
    else:
        logger.info("%s", text.strip())
    found = answer.to_dict()
    storage.write_text(storage.join(output, ANSWER), json.dumps(found, indent=2) + "\n")
    storage.write_text(storage.join(output, stages.SHORT_REPORT), f"```\n{text}```\n")
    storage.write_text(storage.join(output, stages.REPORT), page.render(answer))
    _refuse(config, answer, output)
    return Outcome(
        properties=_properties(answer),
        metrics=_metrics(found),
        may_be_reused=answer.verdict is not Verdict.UNAVAILABLE,
    )


def find_answer(config: PreflightConfig, inputs: Mapping[str, Artifact]) -> Answer:
    """What can be found out."""
    if not config.is_asked_for():
        why = "it is switched off" if config.tpu else "no TPU slice is named (--tpu v5e-4, say)"
        return Answer(verdict=Verdict.SKIPPED, reason=why)
    compiler = TpuCompiler.find(time_limit_seconds=config.time_limit_seconds)
    if isinstance(compiler, Compilation):
        return Answer(verdict=Verdict.UNAVAILABLE, reason=compiler.message)
    from clozeflow.preflight.plan import make_plan
    from clozeflow.preflight.trials import Trials

    with make_plan(config, inputs) as plan:
        trials = Trials(compiler=compiler)
        return answer_of(trials.compile(plan), trials)


def answer_of(trial: Trial, trials: Trials) -> Answer:
    """What a trial says, and what else was tried because of it."""
    from clozeflow.preflight import module, search

    known: dict[str, Any] = {
        "verdict": trial.memory.verdict,
        "trial": trial,
        "products": module.products(trial.module.content),
        "versions": trials.compiler.versions,
    }
    if trial.compilation.status is Status.UNAVAILABLE:
        return Answer(**known, reason=trial.compilation.message)
    if not trial.memory.does_fit:
        return Answer(**known, proposals=tuple(search.proposals(trials, trial)))
    plan, summary = trial.plan, trial.summary
    assert summary
    proposals = search.faster(trials, trial) if plan.config.search else ()
    return Answer(
        **known,
        proposals=tuple(proposals),
        estimate=estimate(
            summary,
            tpu=plan.tpu,
            core=plan.core,
            matrix_flops=known["products"].flops,
            tokens_per_step=plan.config.global_batch_size * plan.seq_len,
            num_steps=plan.config.num_train_steps,
            usd_per_chip_hour=plan.config.usd_per_chip_hour,
        ),
    )


def _refuse(config: PreflightConfig, answer: Answer, output: str) -> None:
    if answer.verdict is Verdict.DOES_NOT_FIT:
        best = answer.proposals[0] if answer.proposals else None
        flags = answer.to_dict()["proposals"][0]["settings"] if best else ""
        raise UserError(
            "preflight",
            answer.headline(),
            fix=f"Give {flags} ({best.what}), or see {output}/{stages.REPORT}."
            if best
            else "Give a smaller --global-batch-size, or a smaller model.",
        )
    if answer.verdict is Verdict.UNAVAILABLE and config.require:
        raise UserError(
            "preflight",
            f"has no answer, and --require demands one: {answer.reason}",
            fix="Make the environment with `make preflight-env`, or leave --require out.",
        )


def _properties(answer: Answer) -> dict[str, Any]:
    trial = answer.trial
    properties: dict[str, Any] = {"verdict": answer.verdict.value}
    if answer.reason:
        properties["reason"] = answer.reason
    if trial:
        properties |= {
            "tpu": trial.plan.tpu.name,
            "num_parameters": trial.module.num_parameters,
            "per_replica_batch_size": trial.plan.num_rows,
            "seq_len": trial.plan.seq_len,
            "module": trial.module.fingerprint,
        }
    return properties


def _metrics(found: Mapping[str, Any]) -> dict[str, float]:
    if "estimate" not in found:
        return {}
    speed, memory = found["estimate"], found["memory"]
    return {
        "needed_bytes": float(memory["needed_bytes"]),
        "memory_share": float(memory["share"]),
        "matrix_flops": float(found["matrix_flops"]),
        "cycles": float(sum(found["cycles"].values())),
        "step_seconds_low": float(speed["step_seconds"]["low"]),
        "step_seconds_high": float(speed["step_seconds"]["high"]),
        "tokens_per_second_low": float(speed["tokens_per_second"]["low"]),
        "tokens_per_second_high": float(speed["tokens_per_second"]["high"]),
        "hours_high": float(speed["hours"]["high"]),
    }
