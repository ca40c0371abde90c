"""The train stage: Shards and Tokenizer in, MaskedLM out."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clozeflow import stages, storage
from clozeflow.artifacts import Artifact
from clozeflow.stages import Outcome
from clozeflow.training import checks, data, devices, durations, export, journal, schedules, units
from clozeflow.training.checkpoint import Checkpoints, variables_by_name
from clozeflow.training.config import MaskingUnit, TrainConfig
from clozeflow.training.loop import Run, train
from clozeflow.training.masking import MaskingRule
from clozeflow.training.model import build_model, count_parameters, preset_config
from clozeflow.training.optimizers import OPTIMIZERS
from clozeflow.training.progress import Progress
from clozeflow.training.step import TrainStep
from clozeflow.training.weights import TENSORFLOW_WEIGHTS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

CHECKPOINTS_FOLDER = "checkpoints"


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
    shards = inputs["shards"]
    config = durations.in_steps(
        config,
        num_examples=checks.num_train_examples(shards),
        seq_len=shards.manifest.properties["seq_len"],
    )
    with (
        storage.local_folder(inputs["tokenizer"].uri) as tokenizer_folder,
        storage.output_folder(output) as folder,
    ):
        tokenizer = load_tokenizer(tokenizer_folder)
        checks.check_inputs(config, inputs["shards"], tokenizer)
        strategy = devices.make_strategy(config.distribution, tpu_name=config.tpu_name)
        checks.check_division(config, strategy.num_replicas_in_sync)
        step = make_step(config, inputs["shards"], tokenizer, strategy)
        progress = _train(config, inputs["shards"], tokenizer, output, folder, step, strategy)
        _export(config, inputs, step.model, progress, folder, tokenizer_folder)
    return _outcome(config, inputs["shards"], step.model, progress)


def load_tokenizer(folder: Path | str) -> PreTrainedTokenizerBase:
    """The tokenizer of an artifact's folder on this machine."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def make_step(
    config: TrainConfig, shards: Artifact, tokenizer: PreTrainedTokenizerBase, strategy: Any
) -> TrainStep:
    """The model with its first weights, its optimizer, and the step that changes them."""
    model_config = preset_config(
        config.preset,
        tokenizer=tokenizer,
        seq_len=shards.manifest.properties["seq_len"],
        dropout_rate=config.dropout_rate,
    )
    with strategy.scope(), devices.precision_policy(config.precision, strategy):
        model = build_model(model_config, seed=config.seed)
        optimizer = OPTIMIZERS[config.optimizer](
            model.trainable_variables, weight_decay=config.weight_decay
        )
    return TrainStep(
        strategy=strategy,
        model=model,
        optimizer=optimizer,
        schedule=schedules.make_schedule(config, config.num_train_steps),
        max_gradient_norm=config.max_gradient_norm,
        seed=config.seed,
        num_parts=config.gradient_accumulation_steps,
        recompute=config.recompute,
        compiler=config.compiler,
    )


def make_rule(
    config: TrainConfig, tokenizer: PreTrainedTokenizerBase, *, seq_len: int
) -> MaskingRule:
    """How the settings say that examples are masked."""
    return MaskingRule.for_tokenizer(
        tokenizer,
        rate=config.masking_rate,
        final_rate=config.final_masking_rate or None,
        num_train_steps=config.num_train_steps,
        seq_len=seq_len,
        mask_share=config.mask_share,
        random_share=config.random_share,
        divide=_divide_rows(config, tokenizer),
    )


def _divide_rows(config: TrainConfig, tokenizer: PreTrainedTokenizerBase) -> units.DivideRows:
    match config.masking_unit:
        case MaskingUnit.TOKEN:
            return units.single_tokens
        case MaskingUnit.WHOLE_WORD:
            starts = units.word_starts(tokenizer)
            return units.whole_words(starts, vocab_size=len(tokenizer))
        case MaskingUnit.SPAN:
            return units.geometric_spans(config.mean_span_length)
        case MaskingUnit.NGRAM:
            return units.ngrams(config.max_ngram_length)


def _train(
    config: TrainConfig,
    shards: Artifact,
    tokenizer: PreTrainedTokenizerBase,
    output: str,
    folder: Path,
    step: TrainStep,
    strategy: Any,
) -> Progress:
    """Restores what there is and runs the rest of the steps."""
    checkpoints = Checkpoints(
        storage.join(stages.work_folder(output), CHECKPOINTS_FOLDER),
        variables_by_name(step.model, step.optimizer),
        keep=config.keep_checkpoints,
    )
    progress = checkpoints.restore()
    seq_len = shards.manifest.properties["seq_len"]
    record = journal.Journal(
        folder,
        rows=progress.rows,
        step=progress.step,
        num_train_steps=config.num_train_steps,
    )
    batches = data.training_batches(
        strategy,
        shards,
        rule=make_rule(config, tokenizer, seq_len=seq_len),
        global_batch_size=config.global_batch_size,
        seed=config.seed,
        start_step=progress.step,
    )
    with data.readable_errors(shards):
        train(
            Run(
                config=config,
                step=step,
                batches=batches,
                checkpoints=checkpoints,
                journal=record,
                tokens_per_step=config.global_batch_size * seq_len,
            ),
            progress,
        )
    record.close()
    return progress


def _export(
    config: TrainConfig,
    inputs: Mapping[str, Artifact],
    model: Any,
    progress: Progress,
    folder: Path,
    tokenizer_folder: Path,
) -> None:
    journal.draw_curves(folder, progress.rows)
    export.export_model(
        model,
        folder,
        tokenizer_folder=tokenizer_folder,
        seq_len=inputs["shards"].manifest.properties["seq_len"],
    )
    facts = {
        **_properties(config, inputs["shards"], model),
        "final training loss (nats)": f"{progress.rows[-1]['loss']:.4f}",
        **{name: artifact.manifest.fingerprint for name, artifact in inputs.items()},
    }
    export.write_card(folder, facts=facts, settings=config.shaping_settings())


def _outcome(config: TrainConfig, shards: Artifact, model: Any, progress: Progress) -> Outcome:
    last = progress.rows[-1]
    return Outcome(
        properties=_properties(config, shards, model),
        metrics={
            "train_loss": last["loss"],
            "train_masked_accuracy": last["masked_accuracy"],
            "tokens_per_second": float(last["tokens_per_second"]),
        },
        # h5 files and pictures hold what depends on the libraries that wrote them.
        auxiliary=(
            journal.TRAINING_LOG,
            f"{journal.LOGS_FOLDER}/",
            f"{journal.PLOTS_FOLDER}/",
            "README.md",
            TENSORFLOW_WEIGHTS,
        ),
    )


def _properties(config: TrainConfig, shards: Artifact, model: Any) -> dict[str, Any]:
    seq_len = shards.manifest.properties["seq_len"]
    return {
        "preset": config.preset.value,
        "num_parameters": count_parameters(model),
        "vocab_size": model.config.vocab_size,
        "seq_len": seq_len,
        "num_train_steps": config.num_train_steps,
        "num_train_tokens": config.num_train_steps * config.global_batch_size * seq_len,
    }
