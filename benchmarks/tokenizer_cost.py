"""What training a Unigram tokenizer costs, against `tokenizers`' own UnigramTrainer.

    python benchmarks/tokenizer_cost.py TEXT [--sizes 10 100] [--vocab-size 25000] [--work FOLDER]

TEXT is a file of one document a line, plain or compressed. Its first megabytes become a corpus, of
which both read the train split. The stage is measured whole, as its command: imports, counting,
training, saving, measuring on validation text, report. The other does nothing but read and
train. Each runs in a process of its own, on one thread. Tokens per byte are counted on the test
split, which neither saw.

Exits with 1 unless the stage takes at most a fifth of the CPU time, no more memory, and
no more tokens per byte.
"""

from __future__ import annotations

import argparse
import bz2
import contextlib
import dataclasses
import gzip
import lzma
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import IO

import machine
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from clozeflow import artifacts
from clozeflow.artifacts import Artifact, ArtifactType
from clozeflow.corpus import reader
from clozeflow.tokenizer import loading
from clozeflow.tokenizer.normalizer import normalize
from clozeflow.tokenizer.special import SPECIAL_TOKENS, UNK

MB = 1_000_000
TIMES_LESS_CPU = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost:
    """What one way of training took and gave."""

    name: str
    cpu_seconds: float
    peak_mb: float
    tokens_per_byte: float
    unknown_rate: float
    vocab_size: int


def main() -> None:
    """Measures both at every size and prints a table; or does the trainer's part."""
    arguments = _parser().parse_args()
    if arguments.train_plainly:
        _train_plainly(arguments.train_plainly, arguments.vocab_size, arguments.work)
        return
    print(machine.describe())
    print("   MB                     CPU s  peak MB  tokens/byte   unknown     ids")
    good = [_compare(arguments, size) for size in arguments.sizes]
    sys.exit(0 if all(good) else 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("text", type=Path, nargs="?")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--vocab-size", type=int, default=25_000)
    parser.add_argument("--work", type=Path, help="folder for what is made; temporary by default")
    parser.add_argument("--train-plainly", metavar="CORPUS", help=argparse.SUPPRESS)
    return parser


def _compare(arguments: argparse.Namespace, size_mb: int) -> bool:
    with contextlib.ExitStack() as stack:
        work = arguments.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        work.mkdir(parents=True, exist_ok=True)
        for name in ("stage", "plain"):
            shutil.rmtree(work / f"{name}-{size_mb}", ignore_errors=True)
        corpus = _make_corpus(arguments.text, size_mb, work)
        stage = _stage_cost(corpus, arguments.vocab_size, work / f"stage-{size_mb}")
        plain = _plain_cost(corpus, arguments.vocab_size, work / f"plain-{size_mb}")
    for cost in (stage, plain):
        print(
            f"{size_mb:5} {cost.name:16} {cost.cpu_seconds:8.1f} {cost.peak_mb:8.0f} "
            f"{cost.tokens_per_byte:12.5f} {cost.unknown_rate:9.6f} {cost.vocab_size:7}"
        )
    times = plain.cpu_seconds / stage.cpu_seconds
    fewer = 1 - stage.tokens_per_byte / plain.tokens_per_byte
    print(f"      {times:.1f} times less CPU time, {fewer:.1%} fewer tokens", flush=True)
    return times >= TIMES_LESS_CPU and stage.peak_mb <= plain.peak_mb and fewer >= 0


def _make_corpus(text: Path, size_mb: int, work: Path) -> Artifact:
    source, output = work / f"{size_mb}.txt", work / f"corpus-{size_mb}"
    if not artifacts.is_finished(str(output)):
        with _open(text) as file, source.open("wb") as target:
            while (left := size_mb * MB - target.tell()) > 0 and (
                piece := file.read(min(left, MB))
            ):
                target.write(piece)
        _run([*_stage("corpus"), "--source", str(source), "--output", str(output)])
        source.unlink()
    return artifacts.open_artifact(str(output), ArtifactType.CORPUS, name="corpus")


def _open(text: Path) -> IO[bytes]:
    openers = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}
    return openers.get(text.suffix, open)(text, "rb")


def _stage(name: str) -> list[str]:
    return [sys.executable, "-m", "clozeflow.cli", name, "--num-workers", "1"]


def _stage_cost(corpus: Artifact, vocab_size: int, output: Path) -> Cost:
    command = [*_stage("tokenizer"), "--corpus", corpus.uri, "--output", str(output)]
    usage = _run([*command, "--vocab-size", str(vocab_size)])
    return _cost("clozeflow", usage, loading.load(str(output)), corpus)


def _plain_cost(corpus: Artifact, vocab_size: int, output: Path) -> Cost:
    output.mkdir(exist_ok=True)
    command = [sys.executable, __file__, "--train-plainly", corpus.uri, "--work", str(output)]
    usage = _run([*command, "--vocab-size", str(vocab_size)])
    return _cost("UnigramTrainer", usage, loading.load(str(output)), corpus)


def _train_plainly(folder: str, vocab_size: int, output: Path) -> None:
    corpus = artifacts.open_artifact(folder, ArtifactType.CORPUS, name="corpus")
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        unk_token=UNK,
        show_progress=False,
    )
    tokenizer.train_from_iterator(reader.iter_texts(corpus, "train"), trainer)
    tokenizer.save(str(output / loading.TOKENIZER_FILE))


def _run(command: list[str]) -> tuple[float, float]:
    """CPU seconds and peak megabytes of a command, on one thread."""
    one_thread = {"RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    # posix_spawn and wait4 give the usage of this child alone.
    nothing = os.open(os.devnull, os.O_WRONLY)
    pid = os.posix_spawn(
        command[0],
        command,
        {**os.environ, **one_thread},
        file_actions=[(os.POSIX_SPAWN_DUP2, nothing, 1)],
    )
    os.close(nothing)
    _, status, usage = os.wait4(pid, 0)
    if status:
        sys.exit(f"failed: {' '.join(command)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / MB


def _cost(name: str, usage: tuple[float, float], tokenizer: Tokenizer, corpus: Artifact) -> Cost:
    num_tokens = num_bytes = num_unknown = 0
    unk = tokenizer.token_to_id(UNK)
    for text in reader.iter_texts(corpus, "test"):
        clean = normalize(text)
        ids = tokenizer.encode(clean, add_special_tokens=False).ids
        num_tokens += len(ids)
        num_unknown += ids.count(unk)
        num_bytes += len(clean.encode())
    return Cost(
        name=name,
        cpu_seconds=usage[0],
        peak_mb=usage[1],
        tokens_per_byte=num_tokens / num_bytes,
        unknown_rate=num_unknown / num_tokens,
        vocab_size=tokenizer.get_vocab_size(),
    )


if __name__ == "__main__":
    main()
