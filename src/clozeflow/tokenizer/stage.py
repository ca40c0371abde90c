"""The tokenizer stage: from a corpus to a tokenizer that `AutoTokenizer` opens."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Mapping

from tokenizers import Tokenizer

from clozeflow import storage
from clozeflow.artifacts import Artifact
from clozeflow.errors import UserError
from clozeflow.stages import Outcome
from clozeflow.tokenizer import bpe, golden, loading, page, saving, unigram, wordpiece
from clozeflow.tokenizer.config import Algorithm, TokenizerConfig
from clozeflow.tokenizer.quality import QUALITY_BYTES, Quality, measure
from clozeflow.tokenizer.sampling import sample_texts
from clozeflow.tokenizer.special import SpecialIds
from clozeflow.tokenizer.words import WordTable, count_words

logger = logging.getLogger(__name__)

QUALITY_FILE, REPORT_FILE = "quality.json", "report.html"

_TRAIN: Mapping[Algorithm, Callable[..., Tokenizer]] = {
    Algorithm.UNIGRAM: unigram.train,
    Algorithm.BPE: bpe.train,
    Algorithm.WORDPIECE: wordpiece.train,
}
_NUM_EXAMPLES = 8


def run(config: TokenizerConfig, inputs: Mapping[str, Artifact], output: str) -> Outcome:
    """Counts words, trains, saves, measures.

    Raises:
        UserError: The corpus is empty, or the vocabulary too small for it.
    """
    corpus = inputs["corpus"]
    words = count_words(
        corpus, max_words=config.max_words, num_workers=config.num_workers, output=output
    )
    if not words.words:
        raise UserError(
            f"--corpus {corpus.uri}", "has no words to train on", fix="Give a corpus with text."
        )
    _save(_train(config, words), config, output)
    return _assess(config, corpus, words, output)


def _train(config: TokenizerConfig, words: WordTable) -> Tokenizer:
    logger.info("training %s on %s distinct words", config.algorithm, f"{len(words.words):,}")
    tokenizer = _TRAIN[config.algorithm](
        words, vocab_size=config.vocab_size, character_coverage=config.character_coverage
    )
    saving.add_special_tokens(tokenizer)
    return tokenizer


def _save(tokenizer: Tokenizer, config: TokenizerConfig, output: str) -> None:
    with storage.output_folder(output) as folder:
        saving.save(tokenizer, folder, model_max_length=config.model_max_length)


def _assess(config: TokenizerConfig, corpus: Artifact, words: WordTable, output: str) -> Outcome:
    """Measures what was saved, as others will load it."""
    tokenizer, special = loading.load(output), SpecialIds()
    split = "validation" if "validation" in corpus.manifest.splits else "train"
    quality = measure(
        tokenizer,
        sample_texts(corpus, split, num_bytes=QUALITY_BYTES, seed=0),
        unk=special.unk,
        special=special.all(),
    )
    examples = list(
        itertools.islice(
            sample_texts(corpus, split, num_bytes=QUALITY_BYTES, seed=0), _NUM_EXAMPLES
        )
    )
    golden.write(output, examples)
    properties = _properties(config, words, tokenizer, quality)
    warnings = _warnings(config, words, tokenizer, quality)
    for warning in warnings:
        logger.warning("%s", warning)
    content = {"split": split, "warnings": warnings, **properties, **quality.to_dict()}
    storage.write_text(
        storage.join(output, QUALITY_FILE),
        json.dumps(content, indent=1, ensure_ascii=False) + "\n",
    )
    report = page.render(
        config,
        quality,
        split=split,
        facts=properties,
        warnings=warnings,
        pieces=sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__),
        examples=[tokenizer.encode(t[:300], add_special_tokens=False).tokens for t in examples],
    )
    storage.write_text(storage.join(output, REPORT_FILE), report)
    return Outcome(
        properties=properties,
        metrics={**quality.figures, "round_trip_failures": quality.num_round_trip_failures},
    )


def _properties(
    config: TokenizerConfig, words: WordTable, tokenizer: Tokenizer, quality: Quality
) -> dict[str, object]:
    return {
        "algorithm": str(config.algorithm),
        "vocab_size": tokenizer.get_vocab_size(),
        "vocab_size_asked": config.vocab_size,
        "model_max_length": config.model_max_length,
        "num_characters": len(words.characters),
        "num_words": words.num_words,
        "num_distinct_words": words.num_distinct_words,
        "num_words_kept": len(words.words),
        "share_of_words_kept": round(words.kept_share, 6),
        **quality.figures,
    }


def _warnings(
    config: TokenizerConfig, words: WordTable, tokenizer: Tokenizer, quality: Quality
) -> list[str]:
    found = []
    size = tokenizer.get_vocab_size()
    if size < config.vocab_size:
        found.append(
            f"The corpus was enough for {size:,} pieces, not for the {config.vocab_size:,} that "
            "--vocab-size asks for."
        )
    if words.kept_share < 0.99:
        found.append(
            f"--max-words {config.max_words:,} kept {words.kept_share:.1%} of the text's words; "
            "raise it if memory allows."
        )
    if quality.num_round_trip_failures:
        found.append(
            f"{quality.num_round_trip_failures:,} of {quality.num_documents:,} documents are not "
            "restored by decoding; the report shows some."
        )
    return found
