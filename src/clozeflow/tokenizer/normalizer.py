"""The one place where white space is normalised: what `decode(encode(text))` gives back.

Every run of white space becomes one space, and there is none at either end. White space is what
`str.split` splits at, and U+2581 (▁), which stands for the space inside pieces and could not be
told from it. Nothing else changes: no lower case, no Unicode form (that is the corpus stage's).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers.normalizers import Normalizer

SPACE_MARK = "▁"
"""Stands for the space before a word, inside pieces."""

_OTHER_SPACES = (
    r"\x{09}-\x{0D}\x{1C}-\x{1F}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}"
    r"\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{2581}"
)


def words(text: str) -> list[str]:
    """The words of a text: what stands between white space."""
    return text.replace(SPACE_MARK, " ").split()


def normalize(text: str) -> str:
    """What is left of a text, and what decoding its ids restores where none is unknown."""
    return " ".join(words(text))


def normalizer() -> Normalizer:
    """The same as `normalize`, as a part of a `tokenizers.Tokenizer`.

    One leading space stays: after a special token it says that a word begins, and at the
    start of a text it is the space that would be put there anyway.
    """
    from tokenizers import Regex, normalizers

    # Single spaces, nearly all there are, do not match: replacing each by itself is slow.
    runs = f"[{_OTHER_SPACES}][ {_OTHER_SPACES}]*| [ {_OTHER_SPACES}]+"
    return normalizers.Sequence(
        [normalizers.Replace(Regex(runs), " "), normalizers.Strip(left=False, right=True)]
    )
