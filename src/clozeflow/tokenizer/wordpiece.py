"""WordPiece: the longest known piece first. Trained as BPE by `tokenizers` on counted words.

Words are cut at punctuation, as BERT does, but keep the space mark, so that decoding restores the
text: BERT's own convention cannot tell "don't" from "don ' t".
"""

from __future__ import annotations

import collections
from collections.abc import Mapping

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from clozeflow.tokenizer import normalizer, vocabulary
from clozeflow.tokenizer.bpe import train_merges
from clozeflow.tokenizer.config import TokenizerConfig
from clozeflow.tokenizer.normalizer import SPACE_MARK
from clozeflow.tokenizer.special import SPECIAL_TOKENS, UNK
from clozeflow.tokenizer.words import MAX_WORD_CHARS, WordTable

CONTINUING = "##"
"""Before a piece that does not begin a pre-token."""

_FIRST, _LATER = 0xF0000, 0x100000
"""Two planes of private characters, for a character that begins a pre-token and one inside it."""


def train(words: WordTable, config: TokenizerConfig) -> Tokenizer:
    """A WordPiece tokenizer; its pieces have ids in the order of their merges.

    `tokenizers`' own WordPiece trainer numbers its alphabet in the order of a hash map, anew each
    run. Here every character is rewritten as one of two private ones, first or later in its
    pre-token; BPE over those is deterministic, and is translated back.

    Raises:
        UserError: The vocabulary is too small for the characters.
    """
    characters = [
        *vocabulary.alphabet(words.characters, coverage=config.character_coverage),
        SPACE_MARK,
    ]
    vocabulary.check_size(
        config.vocab_size,
        num_required=2 * len(characters),
        words=words,
        what=f"{len(characters):,} of them (--character-coverage {config.character_coverage}), "
        "once as first and once as later in a word",
    )
    index = {character: i for i, character in enumerate(characters)}
    model = train_merges(
        _encoded_pretokens(words, index),
        vocab_size=config.vocab_size,
        alphabet=[chr(plane + i) for plane in (_FIRST, _LATER) for i in index.values()],
    )
    vocab = Tokenizer(model).get_vocab()
    return build({_decode(piece, characters): i for piece, i in vocab.items()})


def build(vocab: Mapping[str, int]) -> Tokenizer:
    """A `tokenizers` WordPiece of these pieces."""
    tokenizer = Tokenizer(
        models.WordPiece(
            dict(vocab),
            unk_token=UNK,
            continuing_subword_prefix=CONTINUING,
            max_input_chars_per_word=MAX_WORD_CHARS + 1,
        )
    )
    tokenizer.normalizer = normalizer.normalizer()
    tokenizer.pre_tokenizer = _pre_tokenizer()
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(Regex(f"^{CONTINUING}"), ""),
            decoders.Metaspace(SPACE_MARK, prepend_scheme="first"),
        ]
    )
    return tokenizer


def _pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(SPACE_MARK, prepend_scheme="first"),
            pre_tokenizers.Punctuation("isolated"),
            # The longest match is sought in time that grows with the square of a word's length.
            pre_tokenizers.Split(Regex(f".{{1,{MAX_WORD_CHARS}}}"), "isolated"),
        ]
    )


def _encoded_pretokens(words: WordTable, index: Mapping[str, int]) -> dict[str, int]:
    """The pre-tokens that the vocabulary can spell, in private characters, with their counts."""
    cut = pre_tokenizers.Punctuation("isolated")
    counts: collections.Counter[str] = collections.Counter()
    for word, count in zip(words.words, words.counts, strict=True):
        for part, _ in cut.pre_tokenize_str(word):
            if all(character in index for character in part):
                counts[_encode(part, index)] += count
    return counts


def _encode(part: str, index: Mapping[str, int]) -> str:
    return chr(_FIRST + index[part[0]]) + "".join(chr(_LATER + index[c]) for c in part[1:])


def _decode(piece: str, characters: list[str]) -> str:
    if piece in SPECIAL_TOKENS:
        return piece
    text = "".join(characters[ord(c) & 0xFFFF] for c in piece)
    return text if ord(piece[0]) < _LATER else CONTINUING + text
