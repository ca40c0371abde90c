"""Byte-level BPE, as RoBERTa's own: trained by `tokenizers` on counted words."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from clozeflow.tokenizer import normalizer, vocabulary
from clozeflow.tokenizer.config import TokenizerConfig
from clozeflow.tokenizer.normalizer import SPACE_MARK
from clozeflow.tokenizer.special import SPECIAL_TOKENS
from clozeflow.tokenizer.words import WordTable

_MOST_OCCURRENCES = 20_000_000
"""Words that are fed to the trainer, repetitions included: ten seconds of it."""


def train(words: WordTable, config: TokenizerConfig) -> Tokenizer:
    """A byte-level BPE tokenizer; its pieces have ids in the order of their merges.

    Raises:
        UserError: The vocabulary is too small for 256 bytes.
    """
    vocabulary.check_size(config.vocab_size, num_required=256, words=words, what="256 bytes")
    model = train_merges(
        _pretokens(words),
        vocab_size=config.vocab_size,
        alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizer.normalizer()
    tokenizer.pre_tokenizer = _pre_tokenizer()
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def train_merges(counts: Mapping[str, int], *, vocab_size: int, alphabet: list[str]) -> models.BPE:
    """The merges that `tokenizers` learns from words that are cut no further.

    Its trainer breaks ties by the pieces' ids, and these follow from the sorted alphabet and the
    merges so far, so equal counts give equal merges. It takes text, not counts: each word is
    repeated. Where that would be too many, all counts are divided by one number.
    """
    divisor = -(-sum(counts.values()) // _MOST_OCCURRENCES)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(alphabet),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_repeated(counts, divisor), trainer)
    return tokenizer.model


def _repeated(counts: Mapping[str, int], divisor: int) -> Iterator[str]:
    for word, count in counts.items():
        times = max(round(count / divisor), 1)
        for begin in range(0, times, 10_000):
            yield f"{word} " * min(times - begin, 10_000)


def _pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    # Metaspace with a real space for a mark adds one before the text and, unlike ByteLevel's own
    # add_prefix_space, none after a special token: a comma after <mask> begins no word.
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(" ", prepend_scheme="first", split=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )


def _pretokens(words: WordTable) -> dict[str, int]:
    """The words in parts, as the pre-tokenizer cuts them, written in byte characters."""
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    counts: collections.Counter[str] = collections.Counter()
    for word, count in zip(words.words, words.counts, strict=True):
        for part, _ in cut.pre_tokenize_str(word.replace(SPACE_MARK, " ")):
            counts[part] += count
    return counts
