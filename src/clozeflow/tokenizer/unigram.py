"""Unigram: trained by SentencePiece on (word, count) pairs, written as a `tokenizers` model."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import sentencepiece
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from clozeflow.errors import UserError
from clozeflow.tokenizer import normalizer, vocabulary
from clozeflow.tokenizer.config import TokenizerConfig
from clozeflow.tokenizer.normalizer import SPACE_MARK
from clozeflow.tokenizer.seeds import MAX_PIECE_CHARS, seed_pieces
from clozeflow.tokenizer.special import SPECIAL_TOKENS, SpecialIds
from clozeflow.tokenizer.words import MAX_WORD_CHARS, WordTable

BYTE_PIECES = tuple(f"<0x{byte:02X}>" for byte in range(256))
"""What a character without a piece of its own is written in, where bytes are a fallback."""

_RESERVED = frozenset("▅\0")
"""What SentencePiece's trainer puts for what it does not know, and the end of its strings."""

_SEEDS_PER_PIECE = 4
"""Pieces that training starts from. More take more time and give more tokens per byte."""

_SHRINKING_FACTOR = 0.5
"""The share of pieces left after each round: twice as fast as the default 0.75, and no worse."""

SCORE_STEP = 2.0**-10
"""Scores are multiples of this, so that their sums are exact in single precision as in double:
SentencePiece (float32) and `tokenizers` (float64) then cut every word alike, ties included, and
the faster of the two may encode a corpus (see `shards.sentencepiece_words`)."""


def train(words: WordTable, config: TokenizerConfig) -> Tokenizer:
    """A Unigram tokenizer; its pieces have ids by falling score, then by piece.

    A corpus too small for `vocab_size` pieces gives fewer.

    Raises:
        UserError: The vocabulary is too small for the characters.
    """
    bytes_used = BYTE_PIECES if config.byte_fallback else ()
    characters = vocabulary.alphabet(
        words.characters, coverage=config.character_coverage, spelled=bytes_used
    )
    known = frozenset([*characters, SPACE_MARK])
    vocabulary.check_size(
        config.vocab_size,
        num_required=len(known) + len(bytes_used),
        words=words,
        what=_required(config, len(characters)),
    )
    pairs = list(vocabulary.spellable(words, known - _RESERVED))
    unseen = known.difference(*(word for word, _ in pairs))
    num_fixed = len(SPECIAL_TOKENS) + len(bytes_used) + len(unseen)
    scores = _train_scores(pairs, config.vocab_size - num_fixed)
    scores.update(dict.fromkeys(unseen, min(scores.values())))
    return build(scores, byte_pieces=bytes_used)


def _required(config: TokenizerConfig, num_characters: int) -> str:
    also = ", 256 bytes" if config.byte_fallback else ""
    return (
        f"{num_characters:,} of them (--character-coverage {config.character_coverage}), "
        f"the space{also}"
    )


def build(scores: Mapping[str, float], *, byte_pieces: Sequence[str] = ()) -> Tokenizer:
    """A `tokenizers` Unigram of these pieces, behind the special tokens and the bytes."""
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    # The model looks for every piece of its vocabulary in the text, those two kinds too: they get
    # a score so low that spelling them with ordinary pieces, character by character, is better.
    hidden = [*SPECIAL_TOKENS, *byte_pieces]
    never = 2 * max(map(len, hidden)) * min(ordered[-1][1], -1.0)
    pieces = [*((piece, never) for piece in hidden), *ordered]
    tokenizer = Tokenizer(
        models.Unigram(pieces, unk_id=SpecialIds().unk, byte_fallback=bool(byte_pieces))
    )
    tokenizer.normalizer = normalizer.normalizer()
    # "first": what follows a special token directly, a comma after <mask>, begins no word.
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE_MARK, prepend_scheme="first")
    spaces = decoders.Metaspace(SPACE_MARK, prepend_scheme="first")
    tokenizer.decoder = (
        decoders.Sequence([decoders.ByteFallback(), spaces]) if byte_pieces else spaces
    )
    return tokenizer


def _train_scores(pairs: list[tuple[str, int]], num_pieces: int) -> dict[str, float]:
    """SentencePiece's pieces and scores; every source of chance is set to one value."""
    seeds = seed_pieces(*zip(*pairs, strict=True), num_seeds=_SEEDS_PER_PIECE * num_pieces)
    with tempfile.TemporaryDirectory(prefix="clozeflow-") as folder:
        seeds_file = Path(folder, "seeds.tsv")
        lines = [f"{piece}\t{frequency}\n" for piece, frequency in seeds]
        seeds_file.write_text("".join(lines), encoding="utf-8")
        model = _run_sentencepiece(pairs, num_pieces, seeds_file)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return {
        processor.id_to_piece(i): round(processor.get_score(i) / SCORE_STEP) * SCORE_STEP
        for i in range(1, processor.vocab_size())
    }


def _run_sentencepiece(pairs: list[tuple[str, int]], num_pieces: int, seeds_file: Path) -> bytes:
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(f"{word}\t{count}" for word, count in pairs),
            model_writer=model,
            model_type="unigram",
            input_format="tsv",
            vocab_size=num_pieces + 1,  # its unknown piece is one of them
            hard_vocab_limit=False,
            seed_sentencepieces_file=str(seeds_file),
            shrinking_factor=_SHRINKING_FACTOR,
            max_sentencepiece_length=MAX_PIECE_CHARS,
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
    return model.getvalue()
