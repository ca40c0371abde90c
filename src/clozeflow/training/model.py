"""The model: a size preset, or any configuration of transformers, with random weights."""

from __future__ import annotations

import copy
import dataclasses
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import tf_keras
from transformers import RobertaConfig, TFAutoModelForMaskedLM

from clozeflow.errors import UserError
from clozeflow.training.config import Preset

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase, TFPreTrainedModel

logger = logging.getLogger(__name__)

POSITION_OFFSET = 2
"""TensorFlow's RoBERTa gives `<pad>` position 1 and the first token position 2."""
COUNT_POSITIONS_BEHIND_PADDING = frozenset(
    {"camembert", "longformer", "mpnet", "roberta", "roberta-prelayernorm", "xlm-roberta"}
)
"""The architectures with that offset."""
_DROPOUT_NAMES = (
    *("hidden_dropout_prob", "attention_probs_dropout_prob"),
    *("dropout", "attention_dropout"),
    *("hidden_dropout", "activation_dropout"),
)
REQUIRED_PAD_ID = 1
VOCAB_MULTIPLE = 128
"""A TPU's matrix unit works on tiles of 128: spare rows of the embedding cost nothing there."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Size:
    """The shape of an encoder; feed-forward layers are four times as wide as hidden ones."""

    num_layers: int
    hidden_size: int
    num_heads: int


SIZES: Mapping[Preset, Size] = {
    Preset.TINY: Size(num_layers=2, hidden_size=128, num_heads=2),
    Preset.MINI: Size(num_layers=4, hidden_size=256, num_heads=4),
    Preset.SMALL: Size(num_layers=4, hidden_size=512, num_heads=8),
    Preset.BASE: Size(num_layers=12, hidden_size=768, num_heads=12),
    Preset.LARGE: Size(num_layers=24, hidden_size=1024, num_heads=16),
}


def preset_config(preset: Preset) -> PretrainedConfig:
    """A preset's configuration, before `fit_config`."""
    size = SIZES[preset]
    return RobertaConfig(
        num_hidden_layers=size.num_layers,
        hidden_size=size.hidden_size,
        num_attention_heads=size.num_heads,
        intermediate_size=4 * size.hidden_size,
        max_position_embeddings=0,
        type_vocab_size=1,
        layer_norm_eps=1e-5,  # as roberta-base: the class's default of 1e-12 is nothing to bfloat16
        architectures=["RobertaForMaskedLM"],
    )


def fit_config(
    model_config: PretrainedConfig,
    *,
    tokenizer: PreTrainedTokenizerBase,
    seq_len: int,
    dropout_rate: float,
) -> PretrainedConfig:
    """The configuration with the tokenizer's ids, room for its rows, and the run's dropout.

    Args:
        model_config: Of any masked language model that TensorFlow's transformers have.
        tokenizer: Whose ids the model will read.
        seq_len: Tokens in a row.
        dropout_rate: Of hidden states and of attention.

    Raises:
        UserError: The tokenizer's padding id is not the one that the architecture has built in.
    """
    offset = 0
    if model_config.model_type in COUNT_POSITIONS_BEHIND_PADDING:
        check_pad_id(tokenizer)
        offset = POSITION_OFFSET
    num_rows = padded_vocab_size(len(tokenizer))
    logger.info(
        "embedding: %s rows for %s ids (a multiple of %d)",
        *(f"{num_rows:,}", f"{len(tokenizer):,}", VOCAB_MULTIPLE),
    )
    values = {
        "vocab_size": num_rows,
        "max_position_embeddings": max(
            seq_len + offset, getattr(model_config, "max_position_embeddings", 0)
        ),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    return set_dropout(_changed(model_config, values), dropout_rate)


def set_dropout(model_config: PretrainedConfig, dropout_rate: float) -> PretrainedConfig:
    """The configuration with another dropout, under whatever names it has."""
    names = [name for name in _DROPOUT_NAMES if hasattr(model_config, name)]
    return _changed(model_config, dict.fromkeys(names, dropout_rate))


def check_fits(
    model_config: PretrainedConfig, tokenizer: PreTrainedTokenizerBase, *, seq_len: int, where: str
) -> None:
    """Refuses a trained model that has no room for a tokenizer's ids or for the rows.

    Raises:
        UserError: With both numbers.
    """
    behind_padding = model_config.model_type in COUNT_POSITIONS_BEHIND_PADDING
    if behind_padding:
        check_pad_id(tokenizer)
    room = getattr(model_config, "max_position_embeddings", seq_len + POSITION_OFFSET)
    needs = (
        ("ids of the tokenizer", len(tokenizer), model_config.vocab_size),
        ("tokens in a row", seq_len, room - POSITION_OFFSET * behind_padding),
    )
    for what, needed, there in needs:
        if needed > there:
            raise UserError(
                where,
                f"has not enough room for the {what}",
                got=f"{there:,}",
                expected=f"at least {needed:,}",
                fix="Make shards with the model's own tokenizer and a --seq-len that it has.",
            )


def _changed(model_config: PretrainedConfig, values: Mapping[str, Any]) -> PretrainedConfig:
    changed = copy.deepcopy(model_config)
    for name, value in values.items():
        setattr(changed, name, value)
    return changed


def check_pad_id(tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuses a padding id with which TensorFlow and PyTorch would number positions differently."""
    if tokenizer.pad_token_id != REQUIRED_PAD_ID:
        raise UserError(
            f"tokenizer {tokenizer.name_or_path}",
            "gives the padding token an id that TensorFlow's RoBERTa takes for another token",
            got=tokenizer.pad_token_id,
            expected=REQUIRED_PAD_ID,
            fix="Make the tokenizer with `clozeflow tokenizer`.",
        )


def padded_vocab_size(num_ids: int) -> int:
    """The number of embedding rows for `num_ids` ids: the next multiple of 128."""
    return -(-num_ids // VOCAB_MULTIPLE) * VOCAB_MULTIPLE


def build_model(model_config: PretrainedConfig, *, seed: int) -> TFPreTrainedModel:
    """The model with random weights, which are a function of the configuration and the seed.

    Call it under the scope of the strategy that trains it.

    Raises:
        UserError: TensorFlow has no masked language model of this architecture.
    """
    # The layers' initialisers draw from Keras's generator alone, in the order of the layers.
    tf_keras.utils.set_random_seed(seed)
    try:
        model = TFAutoModelForMaskedLM.from_config(model_config)
    except ValueError as error:
        raise UserError(
            "--model-config",
            "is of an architecture that TensorFlow has no masked language model of",
            got=model_config.model_type,
            expected="roberta, bert, distilbert, or another of TFAutoModelForMaskedLM",
            fix="Give another --model-config.",
        ) from error
    model.build_in_name_scope()
    return model


def count_parameters(model: Any) -> int:
    """The number of trained values; tied ones count once."""
    return sum(int(variable.shape.num_elements()) for variable in model.trainable_variables)
