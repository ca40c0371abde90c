"""A saved tokenizer, measured on text that it was not made from, with a report and a verdict."""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer

from clozeflow import storage
from clozeflow.artifacts import Artifact
from clozeflow.errors import UserError
from clozeflow.stages import Outcome
from clozeflow.tokenizer import adopting, golden, loading, page
from clozeflow.tokenizer.config import TokenizerConfig
from clozeflow.tokenizer.quality import QUALITY_BYTES, Quality, measure
from clozeflow.tokenizer.sampling import sample_texts

logger = logging.getLogger(__name__)

QUALITY_FILE, REPORT_FILE = "quality.json", "report.html"
_NUM_EXAMPLES = 8
_EXAMPLE_CHARS = 300


def assess(
    config: TokenizerConfig, corpus: Artifact, facts: Mapping[str, object], output: str
) -> Outcome:
    """Measures the tokenizer in `output` and writes golden.json, quality.json and report.html.

    Args:
        config: The settings.
        corpus: Its validation split is the text to measure on, or its train split without one.
        facts: What is known of how the tokenizer was made.
        output: The folder with the saved tokenizer, loaded here as others will.

    Raises:
        UserError: More is unknown than `max_unknown_rate` allows.
    """
    split = "validation" if "validation" in corpus.manifest.splits else "train"
    tokenizer, special = loading.load(output), loading.special_ids(output)
    quality = measure(tokenizer, _texts(corpus, split), special=special)
    baseline = _baseline(config, corpus, split)
    examples = list(itertools.islice(_texts(corpus, split), _NUM_EXAMPLES))
    golden.write(output, examples)
    facts = {
        **facts,
        "vocab_size": len(quality.piece_counts),
        "model_max_length": config.model_max_length,
        **{f"{role}_id": i for role, i in dataclasses.asdict(special).items()},
    }
    warnings = _warnings(config, facts, quality)
    _write_quality(output, split, facts, warnings, quality, baseline)
    report = page.render(
        f"Tokenizer: {facts['algorithm']}, {facts['vocab_size']:,} pieces",
        quality=quality,
        baseline=baseline,
        split=split,
        facts=facts,
        warnings=warnings,
        pieces=[tokenizer.id_to_token(i) or "" for i in range(len(quality.piece_counts))],
        examples=[_cut(tokenizer, text) for text in examples],
    )
    storage.write_text(storage.join(output, REPORT_FILE), report)
    _check_unknown_rate(config, quality, split, output)
    return Outcome(properties=facts, metrics=quality.figures)


def _texts(corpus: Artifact, split: str) -> Any:
    return sample_texts(corpus, split, num_bytes=QUALITY_BYTES, seed=0)


def _baseline(config: TokenizerConfig, corpus: Artifact, split: str) -> Quality | None:
    if not config.baseline:
        return None
    found = adopting.open_pretrained(config.baseline, flag="--baseline")
    tokenizer = Tokenizer.from_str(found.backend_tokenizer.to_str())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    special = adopting.special_ids(found, where=f"--baseline {config.baseline}")
    return measure(tokenizer, _texts(corpus, split), special=special)


def _cut(tokenizer: Tokenizer, text: str) -> list[str]:
    return tokenizer.encode(text[:_EXAMPLE_CHARS], add_special_tokens=False).tokens


def _warnings(config: TokenizerConfig, facts: Mapping[str, Any], quality: Quality) -> list[str]:
    found = []
    size, asked = facts["vocab_size"], facts.get("vocab_size_asked", 0)
    if size < asked:
        found.append(
            f"The corpus was enough for {size:,} pieces, not for the {asked:,} that --vocab-size "
            "asks for."
        )
    if facts.get("share_of_words_kept", 1) < 0.99:
        found.append(
            f"--max-words {config.max_words:,} kept {facts['share_of_words_kept']:.1%} of the "
            "text's words; raise it if memory allows."
        )
    if config.from_pretrained and facts["pad_id"] != 1:
        found.append(
            f"The padding id is {facts['pad_id']}: RoBERTa models need 1 (TensorFlow hard-wires it "
            "for their positions); BERT models do not."
        )
    if quality.num_round_trip_failures:
        found.append(
            f"Decoding does not restore {quality.num_round_trip_failures:,} of "
            f"{quality.num_documents:,} documents; the report shows some."
        )
    for warning in found:
        logger.warning("%s", warning)
    return found


def _write_quality(
    output: str,
    split: str,
    facts: Mapping[str, object],
    warnings: list[str],
    quality: Quality,
    baseline: Quality | None,
) -> None:
    content = {"split": split, "warnings": warnings, "tokenizer": facts, **quality.to_dict()}
    if baseline:
        content["baseline"] = baseline.to_dict()
    text = json.dumps(content, indent=1, ensure_ascii=False)
    storage.write_text(storage.join(output, QUALITY_FILE), text + "\n")


def _check_unknown_rate(config: TokenizerConfig, quality: Quality, split: str, output: str) -> None:
    rate = quality.figures["unknown_rate"]
    if rate > config.max_unknown_rate:
        raise UserError(
            storage.join(output, REPORT_FILE),
            f"too many tokens of the {split} split are unknown",
            got=f"unknown_rate {rate}",
            expected=f"at most {config.max_unknown_rate} (--max-unknown-rate)",
            fix="Raise --vocab-size or --character-coverage, set --byte-fallback, or use bpe.",
        )
