"""What a run is made of, as the settings say: model, optimizer, step, masking rule."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import AutoConfig

from clozeflow.artifacts import Artifact
from clozeflow.errors import UserError
from clozeflow.training import devices, schedules, sources, units
from clozeflow.training.config import MaskingUnit, TrainConfig
from clozeflow.training.masking import MaskingRule
from clozeflow.training.model import (
    build_model,
    check_fits,
    fit_config,
    preset_config,
    set_dropout,
)
from clozeflow.training.optimizers import OPTIMIZERS
from clozeflow.training.step import TrainStep
from clozeflow.training.weights import open_masked_lm

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def load_tokenizer(folder: Path | str) -> PreTrainedTokenizerBase:
    """The tokenizer of an artifact's folder on this machine."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def make_step(
    config: TrainConfig, shards: Artifact, tokenizer: PreTrainedTokenizerBase, strategy: Any
) -> TrainStep:
    """The model with its first weights, its optimizer, and the step that changes them."""
    return step_for_rows(config, tokenizer, strategy, seq_len=shards.manifest.properties["seq_len"])


def step_for_rows(
    config: TrainConfig, tokenizer: PreTrainedTokenizerBase, strategy: Any, *, seq_len: int
) -> TrainStep:
    """What trains, and what preflight compiles.

    Args:
        config: The settings, with durations in steps.
        tokenizer: Whose ids the rows hold.
        strategy: The devices.
        seq_len: Tokens in a row.
    """
    if devices.uses_tpu(strategy):
        config = devices.on_tpu(config)
    with strategy.scope(), devices.precision_policy(config.precision, strategy):
        model = make_model(config, tokenizer, seq_len=seq_len)
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


def make_model(config: TrainConfig, tokenizer: PreTrainedTokenizerBase, *, seq_len: int) -> Any:
    """The model that the settings ask for, with random weights or those to go on from.

    Raises:
        UserError: It does not go with the tokenizer, or its weights are not all there.
    """
    fit = functools.partial(
        fit_config, tokenizer=tokenizer, seq_len=seq_len, dropout_rate=config.dropout_rate
    )
    if not config.has_sources():
        return build_model(fit(preset_config(config.preset)), seed=config.seed)
    if config.model_config:
        with sources.model_folder("model_config", config.model_config) as folder:
            model_config = AutoConfig.from_pretrained(folder)
        return build_model(fit(model_config), seed=config.seed)
    with sources.model_folder("init_from", config.init_from) as folder:
        model_config = set_dropout(AutoConfig.from_pretrained(folder), config.dropout_rate)
        where = f"--init-from {config.init_from}"
        check_fits(model_config, tokenizer, seq_len=seq_len, where=where)
        model, missing = open_masked_lm(folder, model_config)
    if missing:
        raise UserError(
            where,
            f"lacks weights of a masked language model: {', '.join(missing[:3])}",
            fix="Give a model that was trained on masked tokens.",
        )
    return model


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
