"""Whether a tokenizer of ours gives the same ids in two versions of transformers.

    python benchmarks/tokenizer_versions.py OTHER_PYTHON TEXT [TEXT …]
        [--algorithms unigram bpe wordpiece] [--vocab-size 16384]

OTHER_PYTHON is the interpreter of another environment, with transformers 5 and without torch, say.
Each TEXT is a file of one document a line, plain or compressed. Corpus and tokenizers are
made from all of them; then every document is encoded in both environments, as a document and
as a model's input, and decoded. Exits with 1 at the first difference, or if decoding does not
restore a document of which no token is unknown.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from clozeflow import artifacts
from clozeflow.artifacts import ArtifactType
from clozeflow.corpus import reader
from clozeflow.tokenizer.config import Algorithm
from clozeflow.tokenizer.normalizer import normalize

ENCODE = """
import json, sys
import transformers
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
print(json.dumps([transformers.__version__, type(tokenizer).__name__, tokenizer.mask_token_id]))
for line in sys.stdin:
    texts = json.loads(line)
    plain = tokenizer(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    asked = tokenizer([text + " <mask>, and" for text in texts])["input_ids"]
    for ids, input_ids in zip(plain, asked):
        print(json.dumps([ids, input_ids, tokenizer.decode(ids)]))
"""
"""Runs in each environment: batches of texts in, ids and decoded texts out."""

UNK = 3


def main() -> None:
    """Makes the tokenizers and compares."""
    arguments = _parser().parse_args()
    if arguments.work:
        arguments.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.work) as work:
        corpus = _run_stage(Path(work, "corpus"), "corpus", "--source", *arguments.texts)
        for algorithm in arguments.algorithms:
            folder = _run_stage(
                Path(work, algorithm),
                *("tokenizer", "--corpus", corpus, "--algorithm", algorithm),
                *("--vocab-size", str(arguments.vocab_size)),
            )
            _compare(arguments.other_python, folder, corpus)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("other_python")
    parser.add_argument("texts", nargs="+")
    parser.add_argument("--algorithms", nargs="+", choices=list(Algorithm), default=list(Algorithm))
    parser.add_argument("--vocab-size", type=int, default=16_384)
    parser.add_argument("--work", type=Path)
    return parser


def _run_stage(output: Path, name: str, *flags: str) -> str:
    command = [sys.executable, "-m", "clozeflow.cli", name, *flags, "--output", str(output)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return str(output)


def _documents(folder: str) -> Iterator[str]:
    corpus = artifacts.open_artifact(folder, ArtifactType.CORPUS, name="corpus")
    return itertools.chain.from_iterable(
        reader.iter_texts(corpus, split) for split in corpus.manifest.splits
    )


def _compare(other_python: str, folder: str, corpus: str) -> None:
    here, there = (_encode(python, folder, corpus) for python in (sys.executable, other_python))
    versions = [json.loads(next(lines)) for lines in (here, there)]
    num_documents = num_tokens = num_known = 0
    for text, ours, theirs in zip(_documents(corpus), here, there, strict=True):
        if ours != theirs:
            sys.exit(f"{folder}: {text[:80]!r}\n{versions[0]}: {ours}\n{versions[1]}: {theirs}")
        ids, _, decoded = json.loads(ours)
        num_documents += 1
        num_tokens += len(ids)
        if UNK not in ids:
            num_known += 1
            if decoded != normalize(text):
                sys.exit(f"{folder}: decoding does not restore {text[:80]!r}: {decoded[:80]!r}")
    print(
        f"{Path(folder).name}: {num_documents:,} documents, {num_tokens:,} tokens, equal in "
        + " and ".join(f"transformers {version} ({name})" for version, name, _ in versions)
        + f"; all {num_known:,} documents without an unknown token are restored",
        flush=True,
    )


def _encode(python: str, folder: str, corpus: str) -> Iterator[str]:
    """The lines that an environment answers, written to a file first: pipes would fill up."""
    environment = {**os.environ, "USE_TORCH": "0", "USE_TF": "0", "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as answers:
        process = subprocess.Popen(
            [python, "-c", ENCODE, folder],
            stdin=subprocess.PIPE,
            stdout=answers,
            stderr=subprocess.DEVNULL,
            env=environment,
            text=True,
        )
        assert process.stdin
        documents = _documents(corpus)
        while batch := list(itertools.islice(documents, 100)):
            process.stdin.write(json.dumps(batch) + "\n")
        process.stdin.close()
        if process.wait():
            sys.exit(f"{python} failed on {folder}")
        answers.seek(0)
        yield from answers


if __name__ == "__main__":
    main()
