"""The train stage: Shards and Tokenizer in, MaskedLM out."""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clozeflow import artifacts, stages, storage
from clozeflow.artifacts import Artifact
from clozeflow.stages import Outcome
from clozeflow.training import (
    account,
    build,
    checks,
    data,
    devices,
    durations,
    export,
    flops,
    journal,
    schedules,
)
from clozeflow.training.account import Item, TimeAccount
from clozeflow.training.checkpoint import Checkpoints, variables_by_name, weights_by_name
from clozeflow.training.config import Keep, TrainConfig
from clozeflow.training.hub import HubPush
from clozeflow.training.loop import Run, train
from clozeflow.training.masking import MaskingRule
from clozeflow.training.model import count_parameters
from clozeflow.training.profiling import Profiler
from clozeflow.training.progress import Progress
from clozeflow.training.sources import source_refs
from clozeflow.training.step import TrainStep
from clozeflow.training.validation import Validator
from clozeflow.training.weights import TENSORFLOW_WEIGHTS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["run", "source_refs"]

logger = logging.getLogger(__name__)

CHECKPOINTS_FOLDER = "checkpoints"
BEST_FOLDER = "best"
CHECKPOINTS_VARIABLE = "AIP_CHECKPOINT_DIR"
"""Where Vertex AI wants checkpoints; without it they are in the work folder."""


def run(config: TrainConfig, inputs: Mapping[str, Artifact], output: str) -> Outcome:
    """Trains the model and exports it; goes on from a checkpoint if there is one.

    Args:
        config: The settings.
        inputs: `shards` and `tokenizer`.
        output: The model's folder.

    Raises:
        UserError: Data, tokenizer, settings and devices do not go together; found before the
            first step.
        SystemExit: See `loop.train`.
    """
    began, shards = time.monotonic(), inputs["shards"]
    seq_len = shards.manifest.properties["seq_len"]
    num_examples = checks.num_train_examples(shards)
    config = durations.in_steps(config, num_examples=num_examples, seq_len=seq_len)
    with (
        storage.local_folder(inputs["tokenizer"].uri) as tokenizer_folder,
        storage.output_folder(output) as folder,
    ):
        tokenizer = build.load_tokenizer(tokenizer_folder)
        strategy = _checked_strategy(config, shards, tokenizer)
        step = build.make_step(config, shards, tokenizer, strategy)
        place = Place(
            config=config,
            shards=shards,
            rule=build.make_rule(config, tokenizer, seq_len=seq_len),
            strategy=strategy,
            folder=folder,
            checkpoints=_checkpoints_folder(config, inputs, output),
            tokenizer_folder=tokenizer_folder,
            began=began,
        )
        hub = _hub(place, step.model)
        progress = _train(place, step, hub)
        times = TimeAccount(progress.account)
        with times.during(Item.EXPORT):
            _export(place, inputs, step.model, progress)
        account.write_account(folder, times.summary())
        logger.info(account.message(times.summary()))
        if hub:
            hub.finish(folder)
    return _outcome(config, shards, step.model, progress)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """What a run works on, and where."""

    config: TrainConfig
    shards: Artifact
    rule: MaskingRule
    strategy: Any
    folder: Path
    """The model's, on this machine."""
    checkpoints: str
    """The checkpoints' folder, local or remote."""
    tokenizer_folder: Path
    """On this machine."""
    began: float
    """When this attempt did, by the clock `time.monotonic`."""

    @property
    def seq_len(self) -> int:
        """Tokens in an example."""
        return int(self.rule.seq_len)


def _checked_strategy(
    config: TrainConfig, shards: Artifact, tokenizer: PreTrainedTokenizerBase
) -> Any:
    """The devices, once all that can be checked without them is as it should be."""
    checks.check_inputs(config, shards, tokenizer)
    checks.check_validation(config, shards)
    if config.tpu_name:
        checks.check_paths(shards, tpu_address=config.tpu_name)
    strategy = devices.make_strategy(config.distribution, tpu_name=config.tpu_name)
    checks.check_division(config, strategy.num_replicas_in_sync)
    return strategy


def _checkpoints_folder(config: TrainConfig, inputs: Mapping[str, Artifact], output: str) -> str:
    vertex = os.environ.get(CHECKPOINTS_VARIABLE)
    if not vertex:
        return storage.join(stages.work_folder(output), CHECKPOINTS_FOLDER)
    # That folder may serve several jobs: each kind of run has its own below it.
    asked = [
        config.shaping_settings(),
        *(artifact.manifest.fingerprint for artifact in inputs.values()),
    ]
    return storage.join(vertex, artifacts.fingerprint_of(asked).removeprefix("sha256:")[:16])


def _train(place: Place, step: TrainStep, hub: HubPush | None) -> Progress:
    """Restores what there is, runs the rest of the steps; the model then has the kept weights."""
    config, before = place.config, journal.last_seconds(place.folder)
    checkpoints = Checkpoints(
        place.checkpoints,
        variables_by_name(step.model, step.optimizer),
        keep=config.keep_checkpoints,
    )
    progress = checkpoints.restore()
    times = TimeAccount(progress.account)
    times.add(Item.LOST_WORK, max(0.0, before - progress.seconds))
    run = _make_run(place, step, progress, times, checkpoints, hub)
    times.add(Item.STARTUP, time.monotonic() - place.began)
    with data.readable_errors(place.shards):
        train(run, progress)
    run.journal.close()
    if run.best and progress.best:
        run.best.load(progress.best.step)
        logger.info("the model is that of step %s", f"{progress.best.step:,}")
    return progress


def _make_run(
    place: Place,
    step: TrainStep,
    progress: Progress,
    times: TimeAccount,
    checkpoints: Checkpoints,
    hub: HubPush | None,
) -> Run:
    config = place.config
    logger.info(schedules.describe(config))
    journal.draw_schedule(place.folder, config)
    record = journal.Journal(
        place.folder,
        progress,
        num_train_steps=config.num_train_steps,
        tokens_per_step=config.global_batch_size * place.seq_len,
        share_of_peak=_share_of_peak(place, step.model),
    )
    batches = data.training_batches(
        place.strategy,
        place.shards,
        rule=place.rule,
        global_batch_size=config.global_batch_size,
        seed=config.seed,
        start_step=progress.step,
    )
    return Run(
        config=config,
        step=step,
        batches=batches,
        checkpoints=checkpoints,
        best=_best_checkpoints(place, step.model),
        journal=record,
        profiler=Profiler(config.profiled(), record.logs_folder),
        account=times,
        validator=_validator(place, step),
        hub=hub,
    )


def _best_checkpoints(place: Place, model: Any) -> Checkpoints | None:
    if place.config.keep is Keep.LAST:
        return None
    folder = storage.join(place.checkpoints, BEST_FOLDER)
    return Checkpoints(folder, weights_by_name(model), keep=2)


def _validator(place: Place, step: TrainStep) -> Validator | None:
    if not place.config.validate_every_steps:
        return None
    return Validator(
        place.strategy,
        step,
        place.shards,
        rule=place.rule,
        batch_size=place.config.global_batch_size,
    )


def _share_of_peak(place: Place, model: Any) -> float:
    """Of the devices' peak, one step a second; 0 where the peak is not known."""
    peak = flops.peak_flops(place.strategy)
    if not peak:
        return 0.0
    needed = flops.step_flops(
        model.config,
        num_examples=place.config.global_batch_size,
        seq_len=place.seq_len,
        num_masked_positions=place.rule.num_masked_positions,
    )
    return needed / peak


def _hub(place: Place, model: Any) -> HubPush | None:
    if not place.config.push_to_hub:
        return None
    return HubPush(
        place.config.push_to_hub,
        model=model,
        tokenizer_folder=place.tokenizer_folder,
        seq_len=place.seq_len,
    )


def _export(place: Place, inputs: Mapping[str, Artifact], model: Any, progress: Progress) -> None:
    journal.draw_curves(place.folder, progress)
    export.export_model(
        model,
        place.folder,
        tokenizer_folder=place.tokenizer_folder,
        seq_len=place.seq_len,
    )
    facts = {
        **_properties(place.config, place.shards, model, progress),
        "final training loss (nats)": f"{progress.rows[-1]['loss']:.4f}",
        **{name: artifact.manifest.fingerprint for name, artifact in inputs.items()},
    }
    export.write_card(place.folder, facts=facts, settings=place.config.shaping_settings())


def _outcome(config: TrainConfig, shards: Artifact, model: Any, progress: Progress) -> Outcome:
    last, best = progress.rows[-1], progress.best
    metrics = {
        "train_loss": last["loss"],
        "train_masked_accuracy": last["masked_accuracy"],
        "tokens_per_second": float(last["tokens_per_second"]),
        "goodput": TimeAccount(progress.account).summary()["goodput"],
    }
    if best:
        metrics |= {"best_validation_loss": best.loss, "best_validation_step": float(best.step)}
    return Outcome(
        properties=_properties(config, shards, model, progress),
        metrics=metrics,
        # h5 files and pictures hold what depends on the libraries that wrote them.
        auxiliary=(
            journal.TRAINING_LOG,
            journal.VALIDATION_LOG,
            account.TIME_ACCOUNT,
            f"{journal.LOGS_FOLDER}/",
            f"{journal.PLOTS_FOLDER}/",
            "README.md",
            TENSORFLOW_WEIGHTS,
        ),
    )


def _properties(
    config: TrainConfig, shards: Artifact, model: Any, progress: Progress
) -> dict[str, Any]:
    seq_len = shards.manifest.properties["seq_len"]
    return {
        "preset": config.model_config or config.init_from or config.preset.value,
        "num_parameters": count_parameters(model),
        "vocab_size": model.config.vocab_size,
        "seq_len": seq_len,
        "num_train_steps": progress.step,
        "num_train_tokens": progress.step * config.global_batch_size * seq_len,
    }
