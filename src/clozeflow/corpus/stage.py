"""The corpus stage: read and clean, put in hash order and deduplicate, write and measure.

Three phases of independent units, each with a ledger: a run that was killed redoes only the
units that had not finished. What comes out depends on the documents and the settings alone.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from clozeflow import artifacts, engine, stages, storage
from clozeflow.artifacts import Artifact, InputRef, Split
from clozeflow.corpus import page, parts, reading, shuffle, sources, statistics
from clozeflow.corpus.cleaning import clean
from clozeflow.corpus.config import CorpusConfig
from clozeflow.corpus.parts import Part
from clozeflow.corpus.reading import Segment
from clozeflow.corpus.shuffle import SPLITS
from clozeflow.corpus.sources import Compression, SourceFile
from clozeflow.corpus.statistics import Measures
from clozeflow.errors import UserError
from clozeflow.stages import Outcome

logger = logging.getLogger(__name__)

BUCKET_BYTES = 32 << 20
"""Text that is deduplicated and sorted at once."""
_CELL_BYTES = 16 << 20
_MAX_CELLS = 4096
_SAMPLE_DOCUMENTS = 10
_SAMPLE_CHARACTERS = 1000


def source_refs(config: CorpusConfig) -> list[InputRef]:
    """Names and hashes every source file."""
    return sources.refs(sources.find_files(config))


def run(config: CorpusConfig, inputs: Mapping[str, Artifact], output: str) -> Outcome:
    """Makes a Corpus from the sources.

    Args:
        config: The settings.
        inputs: None: the data comes from outside.
        output: The folder to write to.

    Raises:
        UserError: A source cannot be read as what it should be, or there are no documents.
    """
    assert not inputs
    files = sources.find_files(config)
    job = _Job(config=config, output=output, num_cells=_num_cells(files))
    read, spills = _read(job, reading.plan_units(files, config.documents))
    buckets = _sort(job, spills, read["text_bytes"])
    written = _write(job, _plan_parts(job, buckets))
    read["num_duplicates"] = sum(bucket["num_duplicates"] for bucket in buckets)
    return _finish(job, read, written)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Job:
    """What every unit of work knows."""

    config: CorpusConfig
    output: str
    num_cells: int

    def work(self, *names: str) -> str:
        return storage.join(stages.work_folder(self.output), *names)

    def run_units(self, work: Any, units: Sequence[Any], phase: str) -> list[Any]:
        return engine.run_units(
            work,
            units,
            num_workers=self.config.num_workers,
            description=f"corpus: {phase}",
            ledger=stages.unit_ledger(self.output, phase),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ReadUnit:
    job: _Job
    segments: tuple[Segment, ...]
    spill: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class _SortUnit:
    job: _Job
    spills: tuple[str, ...]
    index: int
    num_buckets: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class _WriteUnit:
    output: str
    part: Part


def _num_cells(files: Sequence[SourceFile]) -> int:
    """How finely runs are cut: so that a cell holds little, by a guess at the text's size.

    The guess shapes the work and not its result.
    """
    guess = sum(f.num_bytes * (5 if f.compression != Compression.NONE else 1) for f in files)
    return min(_MAX_CELLS, parts.num_ranges(guess, _CELL_BYTES))


def _read(
    job: _Job, units: Sequence[tuple[Segment, ...]]
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Reads and cleans everything: counts, and files of runs in hash order."""
    read_units = [
        _ReadUnit(job=job, segments=segments, spill=job.work("runs", f"{index:06d}.arrow"))
        for index, segments in enumerate(units)
    ]
    results = job.run_units(_read_unit, read_units, "read")
    total: collections.Counter[str] = collections.Counter()
    for result in results:
        total.update(result)
    if not total["num_read"] - total["num_blank"]:
        raise UserError(
            f"--source {' '.join(job.config.source)}",
            "there are no documents in it",
            got=f"{total['num_blank']:,} blank ones",
            expected="at least one with text",
            fix="Check the source, --documents and --text-field.",
        )
    return dict(total), tuple(unit.spill for unit in read_units)


def _read_unit(unit: _ReadUnit) -> dict[str, int]:
    config = unit.job.config
    counts = dict.fromkeys(
        ("num_read", "num_blank", "num_bad_bytes", "num_controls", "text_bytes"), 0
    )
    with storage.atomic_writer(unit.spill) as file:
        spiller = shuffle.Spiller(file, unit.job.num_cells)
        for segment in unit.segments:
            for block in reading.read_segment(segment, config):
                cleaned = clean(block, config.unicode_form)
                spiller.add(cleaned.texts, segment.file.source)
                counts["num_read"] += len(cleaned.texts) + cleaned.num_blank
                counts["num_blank"] += cleaned.num_blank
                counts["num_bad_bytes"] += block.num_bad_bytes
                counts["num_controls"] += cleaned.num_controls
                counts["text_bytes"] += cleaned.text_bytes
        spiller.close()
    return counts


def _sort(job: _Job, spills: tuple[str, ...], text_bytes: int) -> list[dict[str, Any]]:
    """Deduplicates and sorts every range of hashes: what each holds, split by split."""
    num_buckets = parts.num_ranges(text_bytes, BUCKET_BYTES)
    units = [
        _SortUnit(job=job, spills=spills, index=index, num_buckets=num_buckets)
        for index in range(num_buckets)
    ]
    return job.run_units(_sort_unit, units, "sort")


def _sort_unit(unit: _SortUnit) -> dict[str, Any]:
    bucket = shuffle.read_bucket(
        unit.spills,
        unit.job.config,
        index=unit.index,
        num_buckets=unit.num_buckets,
        num_cells=unit.job.num_cells,
    )
    result: dict[str, Any] = {"num_duplicates": bucket.num_duplicates}
    for number, split in enumerate(SPLITS):
        documents = bucket.documents.filter(pa.array(bucket.split == number))
        path = unit.job.work("pieces", f"{split}-{unit.index:06d}.arrow") if len(documents) else ""
        if path:
            parts.write_piece(path, documents)
        result[split] = {"path": path, "text_bytes": parts.text_bytes(documents)}
    return result


def _plan_parts(job: _Job, buckets: Sequence[Mapping[str, Any]]) -> list[Part]:
    num_bytes = {split: sum(b[split]["text_bytes"] for b in buckets) for split in SPLITS}
    planned = []
    for split in SPLITS:
        if num_bytes[split]:
            pieces = [(index, bucket[split]["path"]) for index, bucket in enumerate(buckets)]
            planned += parts.plan_parts(split, pieces, num_bytes=num_bytes[split])
    return planned if num_bytes["train"] else _all_for_training(job, planned)


def _all_for_training(job: _Job, planned: Sequence[Part]) -> list[Part]:
    """Of so few documents that none fell to training, all do: there is nothing to hold out."""
    logger.warning(
        "the corpus is so small that no document fell to the train split: all are put there"
    )
    pieces = [parts.read_piece(piece) for part in planned for piece in part.pieces]
    merged = job.work("pieces", "all.arrow")
    parts.write_piece(merged, pa.concat_tables(pieces).sort_by("doc_id"))
    return [Part(split="train", index=0, num_parts=1, pieces=(merged,))]


def _write(job: _Job, planned: Sequence[Part]) -> list[dict[str, Any]]:
    """Writes the parts: each with its entry in the manifest, its measures and some documents."""
    units = [_WriteUnit(output=job.output, part=part) for part in planned]
    return job.run_units(_write_unit, units, "write")


def _write_unit(unit: _WriteUnit) -> dict[str, Any]:
    measures = Measures()
    sample: list[dict[str, str]] = []
    location = storage.join(unit.output, unit.part.path)
    for documents in parts.write_part(location, unit.part):
        measures.add(documents)
        sample += documents.slice(0, _SAMPLE_DOCUMENTS - len(sample)).to_pylist()
    entry = artifacts.file_entry(
        unit.output,
        unit.part.path,
        counts={"num_documents": measures.num_documents, "text_bytes": measures.text_bytes},
    )
    return {
        "split": unit.part.split,
        "entry": entry.to_dict(),
        "measures": measures.to_dict(),
        "sample": sample if unit.part.index == 0 else [],
    }


def _finish(job: _Job, read: dict[str, int], written: Sequence[Mapping[str, Any]]) -> Outcome:
    """Writes `statistics.json` and the report, and says what came out."""
    splits = {
        split: [result for result in written if result["split"] == split]
        for split in SPLITS
        if any(result["split"] == split for result in written)
    }
    _warn_of_empty_splits(job.config, list(splits))
    values = statistics.summary(
        read,
        {
            split: statistics.merged(Measures.from_dict(r["measures"]) for r in results)
            for split, results in splits.items()
        },
    )
    storage.write_text(
        storage.join(job.output, "statistics.json"),
        json.dumps(values, indent=1, ensure_ascii=False) + "\n",
    )
    sample = [
        {**document, "text": document["text"][:_SAMPLE_CHARACTERS]}
        for document in written[0]["sample"]
    ]
    storage.write_text(storage.join(job.output, "report.html"), page.make_page(values, sample))
    return Outcome(
        splits={
            split: Split(files=tuple(artifacts.FileEntry.from_dict(r["entry"]) for r in results))
            for split, results in splits.items()
        },
        properties=values["properties"],
        auxiliary=("report.html",),
    )


def _warn_of_empty_splits(config: CorpusConfig, there: Sequence[str]) -> None:
    for split, fraction in (
        ("validation", config.validation_fraction),
        ("test", config.test_fraction),
    ):
        if fraction > 0 and split not in there:
            logger.warning("the corpus is so small that its %s split is empty", split)
