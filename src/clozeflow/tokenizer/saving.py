"""From a `tokenizers.Tokenizer` to the folder that `AutoTokenizer.from_pretrained` opens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenizers import AddedToken, Tokenizer, processors

from clozeflow.tokenizer.special import BOS, EOS, MASK, PAD, SPECIAL_TOKENS, UNK, SpecialIds

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def add_special_tokens(tokenizer: Tokenizer) -> None:
    """Makes `<s>` … `<mask>` special, and `<s> text </s>` what encoding gives.

    `<mask>` takes the space before it: the word that it stands for brings its own, and a lone
    space mark would be left otherwise.
    """
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False, lstrip=token == MASK)
            for token in SPECIAL_TOKENS
        ]
    )
    ids = [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS]
    assert tuple(ids) == SpecialIds().all(), ids
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A {EOS}",
        pair=f"{BOS} $A {EOS} {EOS} $B {EOS}",
        special_tokens=[(BOS, ids[0]), (EOS, ids[2])],
    )


def to_transformers(tokenizer: Tokenizer, *, model_max_length: int) -> PreTrainedTokenizerFast:
    """The tokenizer as transformers' plain fast class, which both its versions open unchanged."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNK,
        mask_token=AddedToken(MASK, special=True, normalized=False, lstrip=True),
        cls_token=BOS,
        sep_token=EOS,
        model_max_length=model_max_length,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        padding_side="right",
        truncation_side="right",
    )
