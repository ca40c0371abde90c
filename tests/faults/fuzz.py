"""Anything at all to whatever reads: nothing but a `UserError` comes out, soon, in bounded memory.

    python -m tests.faults.fuzz --minutes 60 --seed 1 --output build/fuzz

Each property below takes what hypothesis draws. The runner goes round them until the time is
over; what fails is shrunk, printed, and kept in the output's database for the next run.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase

from clozeflow import artifacts, cli, component
from clozeflow.artifacts import FileEntry, InputRef, Manifest, Split
from clozeflow.corpus.config import CorpusConfig
from clozeflow.errors import UserError
from clozeflow.registry import STAGES
from clozeflow.stages import run_stage

_SECONDS = 20
_MEMORY_BYTES = 2 << 30

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@contextlib.contextmanager
def only_user_errors() -> Iterator[None]:
    """What a reader may do with what it gets: work, or say what is wrong; and soon."""
    start = time.monotonic()
    with contextlib.suppress(UserError), contextlib.redirect_stderr(io.StringIO()):
        yield
    assert time.monotonic() - start < _SECONDS, "it takes too long"
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert used < _MEMORY_BYTES, f"{used:,} bytes of memory"


@st.composite
def damaged(draw: st.DrawFn, valid: bytes) -> bytes:
    """Bytes that were valid, with pieces cut out, put in, doubled or changed; or any bytes."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=300))
    content = bytearray(valid)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(content)))
        length = draw(st.integers(0, 16))
        piece = draw(st.binary(max_size=12) | st.just(bytes(content[place : place + length])))
        content[place : place + draw(st.sampled_from([0, len(piece), length]))] = piece
    return bytes(content[: draw(st.integers(0, len(content)) | st.just(len(content)))])


def _read_corpus(name: str, content: bytes, **settings: Any) -> None:
    with tempfile.TemporaryDirectory() as folder, only_user_errors():
        path = Path(folder, name)
        path.write_bytes(content)
        config = CorpusConfig(source=(str(path),), num_workers=1, **settings)
        run_stage(STAGES["corpus"], config, inputs={}, output=f"{folder}/out")


_TEXT = "Ein Text.\r\nEine Zeile mit Wörtern und <mask>.\n\n\ufeffNoch eine\u2028Zeile.\n".encode()
_JSONL = b'{"text": "One document.", "id": 1}\n{"text": "Another", "more": [1, {"a": null}]}\n'


@hypothesis.given(
    damaged(_TEXT) | damaged(_TEXT.decode().encode("utf-16")) | st.binary(max_size=2000),
    st.sampled_from([".txt", ".txt.gz", ".txt.zst", ".txt.xz", ".txt.bz2"]),
    st.sampled_from(["line", "paragraph", "file"]),
    st.sampled_from(["replace", "refuse"]),
)
def text(content: bytes, suffix: str, documents: str, bad_bytes: str) -> None:
    """Text in any encoding, packed or said to be."""
    _read_corpus(f"a{suffix}", content, documents=documents, bad_bytes=bad_bytes)


@hypothesis.given(
    damaged(_JSONL)
    | st.lists(json_values, max_size=4).map(lambda v: "\n".join(map(json.dumps, v)).encode()),
    st.sampled_from(["text", "id", "more", ""]),
)
def jsonl(content: bytes, field: str) -> None:
    """Lines of JSON, or nearly."""
    with contextlib.suppress(UserError):
        _read_corpus("a.jsonl", content, text_field=field)


def _parquet(**columns: list[Any]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


_PARQUET = _parquet(text=["One document.", None, "Another"], number=[1, 2, 3])


@hypothesis.given(
    damaged(_PARQUET)
    | st.lists(st.none() | st.integers(0, 9) | st.binary(max_size=5), max_size=3)
    .filter(lambda values: len({type(v) for v in values if v is not None}) < 2)
    .map(lambda values: _parquet(text=values)),
    st.sampled_from(["text", "number", "other"]),
)
def parquet(content: bytes, field: str) -> None:
    """Parquet files that were damaged, or have columns of other types."""
    _read_corpus("a.parquet", content, text_field=field)


def _records(num_examples: int = 3, seq_len: int = 8) -> bytes:
    import numpy as np

    from clozeflow.shards import packing, writing
    from clozeflow.shards.config import Compression, Packing

    packer = packing.packer(Packing.DOCUMENTS, seq_len=seq_len, ids=_special_ids())
    rows, _ = packer.cut(np.arange(5, 5 + num_examples * seq_len, dtype=np.int32))
    with tempfile.TemporaryDirectory() as folder:
        written = writing.write_shards(
            rows, f"{folder}/a", examples_per_shard=100, compression=Compression.NONE
        )
        return Path(written[0]["location"]).read_bytes()


def _special_ids() -> Any:
    from clozeflow.tokenizer.special import SpecialIds

    return SpecialIds(bos=0, pad=1, eos=2, unk=3, mask=4)


_RECORDS = _records()


@hypothesis.given(damaged(_RECORDS), st.sampled_from([8, 16]), st.sampled_from(["", ".gz"]))
def tfrecord(content: bytes, seq_len: int, suffix: str) -> None:
    """Shards whose manifest agrees with bytes that are no shard's."""
    from clozeflow.shards.source import Source

    with tempfile.TemporaryDirectory() as folder, only_user_errors():
        path = f"train/shard-00000-3.tfrecord{suffix}"
        Path(folder, "train").mkdir()
        Path(folder, path).write_bytes(content)
        entry = artifacts.file_entry(folder, path, counts={"num_examples": 3})
        manifest = Manifest(
            type="clozeflow.Shards", stage="shard", config={}, shaping_config={},
            splits={"train": Split(files=(entry,))}, properties={"seq_len": seq_len},
        )  # fmt: skip
        source = Source.open(artifacts.Artifact(uri=folder, manifest=manifest), "train")
        source.read(0)


_MANIFEST = Manifest(
    type="clozeflow.Corpus",
    stage="corpus",
    config={"a": 1, "b": ["c"]},
    shaping_config={"a": 1},
    inputs=(InputRef(name="x", type="source", fingerprint="sha256:0", uri="/x"),),
    splits={"train": Split(files=(FileEntry(path="a", num_bytes=1, sha256="0"),))},
).to_dict()


@st.composite
def changed_json(draw: st.DrawFn, valid: Any) -> Any:
    """A JSON value with some of what is in it replaced, left out or added."""
    if draw(st.integers(0, 5)) == 0:
        return draw(json_values)
    if isinstance(valid, dict):
        kept = {k: v for k, v in valid.items() if draw(st.integers(0, 15))}
        found = {k: draw(changed_json(v)) if draw(st.booleans()) else v for k, v in kept.items()}
        return {**found, **draw(st.dictionaries(st.text(max_size=4), json_values, max_size=1))}
    if isinstance(valid, list):
        return [draw(changed_json(v)) for v in valid]
    return valid


@hypothesis.given(
    damaged(json.dumps(_MANIFEST).encode())
    | changed_json(_MANIFEST).map(lambda value: json.dumps(value).encode())
    | st.integers(1, 100_000).map(lambda depth: b"[" * depth)
)
def manifest(content: bytes) -> None:
    """Manifests that were edited, cut, or are other JSON."""
    with tempfile.TemporaryDirectory() as folder, only_user_errors():
        Path(folder, artifacts.MANIFEST).write_bytes(content)
        read = artifacts.read_manifest(folder)
        artifacts.check_files(folder, read.all_files())


_INPUT = {
    "inputs": {
        "parameterValues": {"seq_len": 32, "num_workers": 1},
        "artifacts": {
            "corpus": {"artifacts": [{"name": "c", "uri": "/nowhere/corpus"}]},
            "tokenizer": {"artifacts": [{"name": "t", "uri": "/nowhere/tokenizer"}]},
        },
    },
    "outputs": {
        "outputFile": "/nowhere/output.json",
        "artifacts": {"shards": {"artifacts": [{"name": "s", "uri": "/nowhere/shards"}]}},
    },
}


@hypothesis.given(
    changed_json(_INPUT).map(json.dumps) | st.text(max_size=50), st.sampled_from([*STAGES, "x"])
)
def executor_input(content: str, stage: str) -> None:
    """What KFP might hand over if it were not KFP."""
    before = sys.argv
    sys.argv = ["clozeflow-component", stage, content]
    try:
        with only_user_errors(), tempfile.TemporaryDirectory() as folder, _inside(folder):
            component.main()
    except SystemExit as left:
        assert str(left.code).startswith("error: "), left.code
    finally:
        sys.argv = before


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@hypothesis.given(st.data(), st.sampled_from(sorted(STAGES)))
def config(data: st.DataObject, stage: str) -> None:
    """Settings of any types and values."""
    kind = STAGES[stage].config
    names = sorted(kind.__dataclass_fields__)
    values = json_values | st.lists(st.text(max_size=8), max_size=3)
    given = data.draw(st.dictionaries(st.sampled_from([*names, "other"]), values, max_size=4))
    with only_user_errors():
        made = kind.from_mapping(given)
        assert kind.from_mapping(json.loads(json.dumps(made.to_dict()))) == made


_WORDS = st.sampled_from(
    ["corpus", "shard", "verify", "predict", "--source", "--output", "--seq-len", "--num-workers",
     "--require", "-h", "--", "-1", "1e9", "nan", "None", "[]", "a", "/nowhere", "--split=", "="]
) | st.text(max_size=6)  # fmt: skip


@hypothesis.given(st.lists(_WORDS, max_size=6))
def command_line(words: list[str]) -> None:
    """Any words behind `clozeflow`."""
    before = sys.argv
    sys.argv = ["clozeflow", *words]
    quiet = contextlib.redirect_stdout(io.StringIO())
    try:
        with only_user_errors(), quiet, tempfile.TemporaryDirectory() as folder, _inside(folder):
            cli.main()
    except SystemExit as left:
        assert left.code in (0, 2), left.code
    finally:
        sys.argv = before


PROPERTIES: tuple[Callable[[], None], ...] = (
    text, jsonl, parquet, tfrecord, manifest, executor_input, config, command_line,
)  # fmt: skip


def limited(test: Callable[[], None], num_examples: int, **more: Any) -> Callable[[], None]:
    """A property that is tried on so many examples."""
    checks = list(hypothesis.HealthCheck)
    return hypothesis.settings(
        max_examples=num_examples, deadline=None, suppress_health_check=checks, **more
    )(test)


def main() -> None:
    """Goes round the properties until the time is over; exit code 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("build/fuzz"))
    asked = parser.parse_args()
    database = DirectoryBasedExampleDatabase(asked.output / "examples")
    tests = [limited(test, 100, database=database) for test in PROPERTIES]
    until, failed, rounds = time.monotonic() + 60 * asked.minutes, set(), 0
    while time.monotonic() < until:
        for test in tests:
            try:
                hypothesis.seed(asked.seed * 1_000_000 + rounds)(test)()
            except Exception:
                failed.add(test.__name__)
                sys.stdout.write(f"{test.__name__}, round {rounds}:\n{traceback.format_exc()}\n")
        rounds += 1
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    sys.stdout.write(
        f"seed {asked.seed}: {rounds} rounds of {len(PROPERTIES)} x 100 examples in "
        f"{asked.minutes:g} minutes, at most {used:,} MB; failed: {sorted(failed) or 'none'}\n"
    )
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
