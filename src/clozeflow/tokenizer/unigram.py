"""Unigram: trained by SentencePiece on (word, count) pairs, written as a `tokenizers` model."""

from __future__ import annotations

import io
from collections.abc import Mapping

import sentencepiece
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from clozeflow.errors import UserError
from clozeflow.tokenizer import normalizer, vocabulary
from clozeflow.tokenizer.normalizer import SPACE_MARK
from clozeflow.tokenizer.special import SPECIAL_TOKENS, SpecialIds
from clozeflow.tokenizer.words import MAX_WORD_CHARS, WordTable

_RESERVED = frozenset("▅")
"""What SentencePiece's trainer puts for characters it does not know: no piece may hold it."""

SCORE_STEP = 2.0**-10
"""Scores are multiples of this, so that their sums are exact in single precision as in double:
SentencePiece (float32) and `tokenizers` (float64) then cut every word alike, ties included, and
the faster of the two may encode a corpus (see `shards.sentencepiece_words`)."""


def train(words: WordTable, *, vocab_size: int, character_coverage: float) -> Tokenizer:
    """A Unigram tokenizer; its pieces have ids by falling score, then by piece.

    A corpus too small for `vocab_size` pieces gives fewer.

    Raises:
        UserError: The vocabulary is too small for the characters.
    """
    characters = vocabulary.alphabet(words.characters, coverage=character_coverage)
    known = frozenset([*characters, SPACE_MARK])
    vocabulary.check_size(
        vocab_size,
        num_required=len(known),
        words=words,
        what=f"{len(characters):,} of them (--character-coverage {character_coverage}), the space",
    )
    pairs = list(vocabulary.spellable(words, known - _RESERVED))
    unseen = known.difference(*(word for word, _ in pairs))
    scores = _train_scores(pairs, vocab_size - len(SPECIAL_TOKENS) - len(unseen))
    lowest = min(scores.values())
    scores.update(dict.fromkeys(unseen, lowest))
    return build(scores)


def build(scores: Mapping[str, float]) -> Tokenizer:
    """A `tokenizers` Unigram of these pieces, behind the special tokens."""
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    # The model looks for every piece of its vocabulary in the text, the special ones too: they get
    # a score so low that spelling them with ordinary pieces, character by character, is better.
    longest = max(len(token) for token in SPECIAL_TOKENS)
    never = 2 * longest * min(ordered[-1][1], -1.0)
    pieces = [*((token, never) for token in SPECIAL_TOKENS), *ordered]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=SpecialIds().unk))
    tokenizer.normalizer = normalizer.normalizer()
    # "first": what follows a special token directly, a comma after <mask>, begins no word.
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE_MARK, prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace(SPACE_MARK, prepend_scheme="first")
    return tokenizer


def _train_scores(pairs: list[tuple[str, int]], num_pieces: int) -> dict[str, float]:
    """SentencePiece's pieces and scores; every source of chance is set to one value."""
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(f"{word}\t{count}" for word, count in pairs),
            model_writer=model,
            model_type="unigram",
            input_format="tsv",
            vocab_size=num_pieces + 1,  # its unknown piece is one of them
            hard_vocab_limit=False,
            character_coverage=1.0,  # the alphabet has been chosen already
            normalization_rule_name="identity",
            add_dummy_prefix=False,  # words bring their mark
            split_by_unicode_script=False,
            max_sentence_length=8 * MAX_WORD_CHARS,
            shuffle_input_sentence=False,
            num_threads=1,
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise UserError(
            "--corpus",
            f"SentencePiece cannot learn from its {len(pairs):,} words: {error}",
            fix="Give more text, or another --vocab-size.",
        ) from error
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return {
        processor.id_to_piece(i): round(processor.get_score(i) / SCORE_STEP) * SCORE_STEP
        for i in range(1, processor.vocab_size())
    }
