"""The tokenizer stage: from a corpus to a tokenizer that `AutoTokenizer` opens."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

from clozeflow import storage
from clozeflow.artifacts import Artifact, InputRef
from clozeflow.engine import Workers
from clozeflow.errors import UserError
from clozeflow.stages import Outcome
from clozeflow.tokenizer import adopting, assessment, bpe, saving, unigram, wordpiece
from clozeflow.tokenizer.config import Algorithm, TokenizerConfig
from clozeflow.tokenizer.sampling import Sample
from clozeflow.tokenizer.words import WordTable, count_words

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

logger = logging.getLogger(__name__)

_TRAIN: Mapping[Algorithm, Callable[[WordTable, TokenizerConfig], Tokenizer]] = {
    Algorithm.UNIGRAM: unigram.train,
    Algorithm.BPE: bpe.train,
    Algorithm.WORDPIECE: wordpiece.train,
}


def source_refs(config: TokenizerConfig) -> list[InputRef]:
    """The tokenizers of others that the stage reads: the one to adopt, the one to compare with."""
    roles = {"from_pretrained": config.from_pretrained, "baseline": config.baseline}
    return [adopting.source_ref(name, role=role) for role, name in roles.items() if name]


def run(config: TokenizerConfig, inputs: Mapping[str, Artifact], output: str) -> Outcome:
    """Trains a tokenizer, or adopts one; saves it and measures it.

    Args:
        config: The settings.
        inputs: `corpus`.
        output: The folder to write to.

    Raises:
        UserError: The corpus is empty, the vocabulary too small for it, too much of it unknown, or
            the tokenizer to adopt has not what masking needs.
    """
    corpus = inputs["corpus"]
    if config.from_pretrained:
        tokenizer = adopting.adopt(config.from_pretrained, model_max_length=config.model_max_length)
        facts = _facts_of_adopted(config, tokenizer)
    else:
        words = _count(config, corpus, output)
        tokenizer = _train(config, words)
        facts = _facts_of_trained(config, words)
    _save(tokenizer, output)
    return assessment.assess(config, corpus, facts, output)


def _count(config: TokenizerConfig, corpus: Artifact, output: str) -> WordTable:
    sample = Sample()
    if config.corpus_sample_bytes:
        sample = Sample.of(corpus, "train", num_bytes=config.corpus_sample_bytes, seed=config.seed)
    words = count_words(
        corpus,
        sample=sample,
        max_words=config.max_words,
        workers=Workers.of(config),
        output=output,
    )
    if not words.words:
        raise UserError(
            f"--corpus {corpus.uri}",
            "has no words to train on",
            got=f"{words.num_documents} documents",
            fix="Give a corpus with text, or a larger --corpus-sample-bytes.",
        )
    return words


def _train(config: TokenizerConfig, words: WordTable) -> PreTrainedTokenizerFast:
    logger.info("training %s on %s distinct words", config.algorithm, f"{len(words.words):,}")
    tokenizer = _TRAIN[config.algorithm](words, config)
    saving.add_special_tokens(tokenizer)
    return saving.to_transformers(tokenizer, model_max_length=config.model_max_length)


def _save(tokenizer: PreTrainedTokenizerFast, output: str) -> None:
    with storage.output_folder(output) as folder:
        tokenizer.save_pretrained(str(folder))


def _facts_of_trained(config: TokenizerConfig, words: WordTable) -> dict[str, object]:
    return {
        "algorithm": str(config.algorithm),
        "vocab_size_asked": config.vocab_size,
        "trained_on_documents": words.num_documents,
        "trained_on_bytes": words.num_bytes,
        "num_characters": len(words.characters),
        "num_words": words.num_words,
        "num_distinct_words": words.num_distinct_words,
        "num_words_kept": len(words.words),
        "share_of_words_kept": round(words.kept_share, 6),
    }


def _facts_of_adopted(
    config: TokenizerConfig, tokenizer: PreTrainedTokenizerFast
) -> dict[str, object]:
    definition = json.loads(tokenizer.backend_tokenizer.to_str())
    return {
        "algorithm": definition["model"]["type"].lower(),
        "adopted_from": config.from_pretrained,
    }
