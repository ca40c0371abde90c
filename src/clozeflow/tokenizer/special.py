"""The special tokens and their ids."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpecialIds:
    """The ids of a tokenizer's special tokens. Ours are the defaults; an adopted one has its own.

    TensorFlow's RoBERTa hard-wires padding index 1 for its positions, whatever the config says.
    """

    bos: int = 0
    pad: int = 1
    eos: int = 2
    unk: int = 3
    mask: int = 4

    def all(self) -> tuple[int, ...]:
        """Every special id, in ascending order."""
        return tuple(sorted(dataclasses.asdict(self).values()))


BOS, PAD, EOS, UNK, MASK = "<s>", "<pad>", "</s>", "<unk>", "<mask>"
SPECIAL_TOKENS = (BOS, PAD, EOS, UNK, MASK)
"""The special tokens' texts, at the index that is their id."""

SPECIAL_ROLES = {
    "bos": ("cls_token", "bos_token"),
    "pad": ("pad_token",),
    "eos": ("sep_token", "eos_token"),
    "unk": ("unk_token",),
    "mask": ("mask_token",),
}
"""What masking needs, and the names under which transformers keeps it, the first one first."""
