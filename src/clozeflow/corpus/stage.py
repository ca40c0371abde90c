"""The corpus stage: read and clean, put in hash order and deduplicate, write and measure.

What comes out depends on the documents and the settings alone: not on the order of the sources,
on how they are cut into units, on the number of workers, or on a run that was killed.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from clozeflow import storage
from clozeflow.artifacts import Artifact, FileEntry, InputRef, Split
from clozeflow.corpus import (
    near_duplicates,
    page,
    parts,
    phases,
    reading,
    shuffle,
    sources,
    statistics,
)
from clozeflow.corpus.config import CorpusConfig, NearDuplicates
from clozeflow.corpus.filters import Reason
from clozeflow.corpus.parts import Part
from clozeflow.corpus.phases import DROPPED, CompareUnit, Job, ReadUnit, SortUnit, WriteUnit
from clozeflow.corpus.shuffle import SPLITS
from clozeflow.corpus.sources import Compression, Format, SourceFile
from clozeflow.corpus.statistics import Measures
from clozeflow.corpus.thresholds import check_thresholds
from clozeflow.errors import UserError
from clozeflow.stages import Outcome

logger = logging.getLogger(__name__)

STATISTICS = "statistics.json"
REPORT = "report.html"
_MAX_EXAMPLES = 20
_SUSPICIOUS_SHARE = 0.01
"""Of bad bytes and control characters among all: with more, a source may be no text at all."""
_GUESSED_EXPANSION = 5
"""What a compressed file is taken to hold, in its own size."""
_GUESSED_HUB_BYTES = 1 << 30
"""What a split of a Hub data set is taken to hold: its size is not known before it is read."""


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
        UserError: A source cannot be read as what it should be, there are no documents, or they
            do not meet the thresholds.
    """
    assert not inputs
    files = sources.find_files(config)
    config.check_locations(file.location for file in files if file.format != Format.HUB)
    job = Job(config=config, output=output, guessed_bytes=_guess_bytes(files))
    found, spills = _read(job, files)
    buckets = _sort(job, spills, found)
    pairs = _compare(job, buckets, found)
    written = _write(job, buckets, pairs)
    _write_dropped(job, buckets)
    return _finish(job, found, buckets, written)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Found:
    """What reading found in all."""

    totals: Mapping[str, int]
    dropped: Mapping[str, int]
    """By reason."""
    sources: Mapping[str, int]
    """Documents read, by source."""


def _guess_bytes(files: Sequence[SourceFile]) -> int:
    packed = sum(f.num_bytes for f in files if f.compression != Compression.NONE)
    of_hub = _GUESSED_HUB_BYTES * sum(f.format == Format.HUB for f in files)
    return sum(f.num_bytes for f in files) + (_GUESSED_EXPANSION - 1) * packed + of_hub


def _read(job: Job, files: Sequence[SourceFile]) -> tuple[_Found, tuple[str, ...]]:
    """Reads and cleans everything: counts, and files of runs in hash order."""
    units = reading.plan_units(files, job.config.documents, job.unit_bytes)
    read_units = [
        ReadUnit(job=job, segments=segments, spill=job.work("runs", f"{index:06d}.arrow"))
        for index, segments in enumerate(units)
    ]
    results = job.run_units(phases.read, read_units, "read")
    found = _Found(
        totals=_sum(r["totals"] for r in results),
        dropped=_sum(r["dropped"] for r in results),
        sources=_sum(r["sources"] for r in results),
    )
    _refuse_empty(job.config, found)
    return found, tuple(unit.spill for unit in read_units)


def _refuse_empty(config: CorpusConfig, found: _Found) -> None:
    num_blank, num_dropped = found.totals.get("num_blank", 0), sum(found.dropped.values())
    if found.totals.get("num_read", 0) > num_blank + num_dropped:
        return
    reasons = "".join(f", {number:,} {reason}" for reason, number in sorted(found.dropped.items()))
    raise UserError(
        f"--source {' '.join(config.source)}",
        "there are no documents in it",
        got=f"{num_blank:,} blank{reasons}" if num_blank or reasons else "nothing at all",
        expected="at least one document with text",
        fix="Check the source, --documents, --text-field and the filters.",
    )


def _sort(job: Job, spills: tuple[str, ...], found: _Found) -> list[dict[str, Any]]:
    """Deduplicates and sorts every range of hashes."""
    num_buckets = phases.num_ranges(found.totals["text_bytes"], phases.BUCKET_BYTES)
    units = [
        SortUnit(
            job=job,
            spills=spills,
            index=index,
            num_buckets=num_buckets,
            num_band_cells=_num_band_cells(found),
        )
        for index in range(num_buckets)
    ]
    results = job.run_units(phases.sort, units, "sort")
    return [{**result, "bands": unit.bands} for unit, result in zip(units, results, strict=True)]


def _num_band_cells(found: _Found) -> int:
    return phases.num_ranges(found.totals["text_bytes"], phases.BAND_BYTES)


def _compare(job: Job, buckets: Sequence[Mapping[str, Any]], found: _Found) -> tuple[str, ...]:
    """Looks for near duplicates: the files that name them."""
    if job.config.near_duplicates == NearDuplicates.IGNORE:
        return ()
    bands, number = tuple(bucket["bands"] for bucket in buckets), _num_band_cells(found)
    units = [
        CompareUnit(job=job, bands=bands, index=index, num_band_cells=number)
        for index in range(number)
    ]
    results = job.run_units(phases.compare, units, "compare")
    return tuple(u.pairs for u, result in zip(units, results, strict=True) if result["num_pairs"])


def _write(
    job: Job, buckets: Sequence[Mapping[str, Any]], pairs: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Writes the parts of the splits."""
    planned = [part for split in SPLITS for part in _plan(buckets, split)]
    if not any(part.split == "train" for part in planned):
        planned = _all_for_training(job, planned)
    units = [WriteUnit(job=job, part=part, pairs=pairs) for part in planned]
    return job.run_units(phases.write, units, "write")


def _plan(buckets: Sequence[Mapping[str, Any]], name: str) -> list[Part]:
    pieces = [bucket["pieces"][name] for bucket in buckets]
    num_bytes = sum(piece["text_bytes"] for piece in pieces)
    return parts.plan_parts(name, [p["path"] for p in pieces], num_bytes) if num_bytes else []


def _all_for_training(job: Job, planned: Sequence[Part]) -> list[Part]:
    """Of so few documents that none fell to training, all do: there is nothing to hold out.

    Where sources are named for the other splits, an empty train split is what was asked for.
    """
    if job.config.validation_source or job.config.test_source:
        logger.warning("no document is in the train split")
        return list(planned)
    logger.warning(
        "the corpus is so small that no document fell to the train split: all are put there"
    )
    pieces = [parts.read_piece(piece) for part in planned for piece in part.pieces]
    merged = job.work("pieces", "all.arrow")
    parts.write_piece(merged, pa.concat_tables(pieces).sort_by("doc_id"))
    return [Part(split="train", index=0, num_parts=1, pieces=(merged,))]


def _write_dropped(job: Job, buckets: Sequence[Mapping[str, Any]]) -> None:
    """Writes what filters and duplicates took out, if it is to be kept."""
    for part in _plan(buckets, DROPPED) if job.config.keep_dropped else ():
        location = storage.join(job.output, part.path)
        parts.write_part(location, parts.row_groups(part.pieces), shuffle.DROPPED_SCHEMA)


def _finish(
    job: Job,
    found: _Found,
    buckets: Sequence[Mapping[str, Any]],
    written: Sequence[Mapping[str, Any]],
) -> Outcome:
    """Writes `statistics.json` and the report, checks the thresholds, says what came out."""
    splits = {
        split: [result for result in written if result["split"] == split]
        for split in SPLITS
        if any(result["split"] == split for result in written)
    }
    _warn(job.config, found, list(splits))
    values = _statistics(job, found, buckets, splits)
    location = storage.join(job.output, STATISTICS)
    storage.write_text(location, json.dumps(values, indent=1, ensure_ascii=False) + "\n")
    html = page.make_page(values, written[0]["sample"])
    storage.write_text(storage.join(job.output, REPORT), html)
    check_thresholds(job.config.require, values["properties"], where=location)
    return Outcome(
        splits={
            split: Split(files=tuple(FileEntry.from_dict(r["entry"]) for r in results))
            for split, results in splits.items()
        },
        properties=values["properties"],
        auxiliary=(REPORT,),
    )


def _warn(config: CorpusConfig, found: _Found, there: Sequence[str]) -> None:
    fractions = (("validation", config.validation_fraction), ("test", config.test_fraction))
    for split, fraction in fractions:
        if fraction > 0 and split not in there:
            logger.warning("the corpus is so small that its %s split is empty", split)
    totals = found.totals
    if number := totals["num_bad_bytes"]:
        logger.warning("%s bytes that are no text were replaced: see the report", f"{number:,}")
    share = (number + totals["num_controls"]) / max(1, totals["text_bytes"])
    if share >= _SUSPICIOUS_SHARE:
        logger.warning(
            "warning: %.0f%% of the characters are no text's (bad bytes, control characters): "
            "is every --source text? (--require 'num_bad_bytes<=0' would refuse it)",
            100 * share,
        )


def _statistics(
    job: Job,
    found: _Found,
    buckets: Sequence[Mapping[str, Any]],
    splits: Mapping[str, Sequence[Mapping[str, Any]]],
) -> dict[str, Any]:
    """The content of `statistics.json`."""
    measures = {
        split: statistics.merged(Measures.from_dict(r["measures"]) for r in results)
        for split, results in splits.items()
    }
    near = {
        split: sum(r["near_duplicates"]["number"] for r in results)
        for split, results in splits.items()
    }
    dropped = {
        **found.dropped,
        str(Reason.DUPLICATE): sum(bucket["num_duplicates"] for bucket in buckets),
    }
    if job.config.near_duplicates == NearDuplicates.DROP:
        dropped[str(Reason.NEAR_DUPLICATE)] = sum(near.values())
    contaminated = [example for bucket in buckets for example in bucket["contaminated"]]
    repeated = [example for bucket in buckets for example in bucket["repeated"]]
    return statistics.summary(
        totals=found.totals,
        dropped=dropped,
        read_by_source=found.sources,
        splits=measures,
        near_duplicates={"by_split": near, "examples": _near_examples(buckets, splits)},
        contamination={
            "by_splits": _sum(bucket["contamination"] for bucket in buckets),
            "examples": contaminated[:_MAX_EXAMPLES],
        },
        repeated=sorted(repeated, key=lambda r: (-r["copies"], r["text"]))[:_MAX_EXAMPLES],
    )


def _near_examples(
    buckets: Sequence[Mapping[str, Any]], splits: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    """Some near duplicates with the texts that they are near to."""
    found = []
    for results in splits.values():
        for example in results[0]["near_duplicates"]["examples"]:
            bucket = buckets[example["near"] * len(buckets) >> 64]
            path = bucket["pieces"][example["near_split"]]["path"]
            text = near_duplicates.find_text(parts.read_piece(path), example["near"])
            found.append(
                {
                    "similarity": example["similarity"],
                    "doc_id": example["doc_id"],
                    "source": example["source"],
                    "text": example["text"][:300],
                    "near_text": text[:300],
                }
            )
    return found


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Counts added up by name, in the names' order."""
    total: collections.Counter[str] = collections.Counter()
    for one in counts:
        total.update(one)
    return dict(sorted(total.items()))
