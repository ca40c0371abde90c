"""What every algorithm's vocabulary starts from: the characters that it must hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from clozeflow.errors import UserError
from clozeflow.tokenizer.special import SPECIAL_TOKENS
from clozeflow.tokenizer.words import WordTable


def alphabet(
    characters: Mapping[str, int], *, coverage: float, spelled: Sequence[str] = ()
) -> list[str]:
    """The most frequent characters that make up a share `coverage` of the text.

    The characters of the special tokens' texts are added. So every such text in a document can be
    spelled with ordinary pieces, which then always score better than the special token itself.

    Args:
        characters: How often each occurs, the most frequent first.
        coverage: From 0 to 1.
        spelled: Other pieces whose texts it must be possible to spell.
    """
    wanted = coverage * sum(characters.values())
    chosen, covered = set("".join([*SPECIAL_TOKENS, *spelled])), 0
    for character, count in characters.items():
        if covered >= wanted:
            break
        chosen.add(character)
        covered += count
    return sorted(chosen)


def check_size(vocab_size: int, *, num_required: int, words: WordTable, what: str) -> None:
    """Refuses a vocabulary that cannot hold what it must.

    Args:
        vocab_size: The size that was asked for.
        num_required: Pieces that must be in it, the special tokens not counted.
        words: The corpus's words.
        what: What the required pieces are, with their number, for the message.
    """
    least = num_required + len(SPECIAL_TOKENS)
    if vocab_size < least:
        raise UserError(
            "--vocab-size",
            f"the corpus has {len(words.characters):,} characters, vocab_size is {vocab_size:,}: "
            f"too small for {what} and {len(SPECIAL_TOKENS)} special tokens",
            got=vocab_size,
            expected=f"at least {least:,}",
            fix=f"Raise --vocab-size to at least {least:,}, better to ten times that, "
            "or lower --character-coverage.",
        )


def spellable(words: WordTable, known: frozenset[str]) -> Iterator[tuple[str, int]]:
    """The words and their counts, cut where a character is not in the vocabulary."""
    for word, count in zip(words.words, words.counts, strict=True):
        if known.issuperset(word):
            yield word, count
        else:
            spaced = "".join(c if c in known else " " for c in word)
            yield from ((part, count) for part in spaced.split(" ") if part)
