"""The model: a size preset as a transformers model with random weights."""

from __future__ import annotations

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


def preset_config(
    preset: Preset,
    *,
    tokenizer: PreTrainedTokenizerBase,
    seq_len: int,
    dropout_rate: float,
) -> PretrainedConfig:
    """A preset's configuration for a tokenizer and rows of `seq_len` tokens.

    Raises:
        UserError: The tokenizer's padding id is not the one that TensorFlow's RoBERTa has
            built in for its positions.
    """
    check_pad_id(tokenizer)
    size = SIZES[preset]
    return RobertaConfig(
        vocab_size=padded_vocab_size(len(tokenizer)),
        num_hidden_layers=size.num_layers,
        hidden_size=size.hidden_size,
        num_attention_heads=size.num_heads,
        intermediate_size=4 * size.hidden_size,
        max_position_embeddings=seq_len + POSITION_OFFSET,
        type_vocab_size=1,
        layer_norm_eps=1e-5,  # as roberta-base: the class's default of 1e-12 is nothing to bfloat16
        hidden_dropout_prob=dropout_rate,
        attention_probs_dropout_prob=dropout_rate,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        architectures=["RobertaForMaskedLM"],
    )


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
    """
    # The layers' initialisers draw from Keras's generator alone, in the order of the layers.
    tf_keras.utils.set_random_seed(seed)
    model = TFAutoModelForMaskedLM.from_config(model_config)
    model.build_in_name_scope()
    return model


def count_parameters(model: Any) -> int:
    """The number of trained values; tied ones count once."""
    return sum(int(variable.shape.num_elements()) for variable in model.trainable_variables)
