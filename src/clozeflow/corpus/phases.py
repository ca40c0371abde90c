"""The corpus stage's work in four phases of independent units, each restartable.

read      segments of files  -> runs of clean documents in hash order
sort      ranges of hashes   -> pieces: distinct documents, split by split; bands of signatures
compare   ranges of bands    -> pairs of near duplicates
write     parts              -> Parquet, and what was measured while writing
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clozeflow import artifacts, engine, stages, storage
from clozeflow.corpus import cells, filters, near_duplicates, parts, reading, shuffle
from clozeflow.corpus.cleaning import CleanBlock, clean
from clozeflow.corpus.config import CorpusConfig, NearDuplicates
from clozeflow.corpus.filters import Reason
from clozeflow.corpus.parts import Part
from clozeflow.corpus.reading import Segment
from clozeflow.corpus.shuffle import SPLITS, Spiller
from clozeflow.corpus.statistics import Measures
from clozeflow.engine import Workers

BUCKET_BYTES = 16 << 20
"""Text that is deduplicated and sorted at once."""
BAND_BYTES = 4 << 20
"""Text whose signatures are compared at once."""
SPILL_BYTES = 8 << 20
"""Text that is sorted and spilled at once."""
MAX_RANGES = 4096
"""Into so many ranges hashes are cut at most. Beyond 64 GB of text, ranges and runs grow instead:
their number is what files and their headers cost."""
DROPPED = "dropped"
_FEW_BYTES = 32 << 20
_SAMPLE_DOCUMENTS = 10
_NEAR_EXAMPLES = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """What every unit of work knows."""

    config: CorpusConfig
    output: str
    guessed_bytes: int
    """About how much text there is: it shapes the work and not the result."""

    @property
    def num_cells(self) -> int:
        """How finely runs are cut."""
        return num_ranges(self.guessed_bytes, BUCKET_BYTES // 2)

    @property
    def unit_bytes(self) -> int:
        """How much text one unit reads."""
        return max(reading.UNIT_BYTES, self.guessed_bytes // (MAX_RANGES // 2))

    @property
    def spill_bytes(self) -> int:
        """How much text makes a run."""
        return max(SPILL_BYTES, self.guessed_bytes // MAX_RANGES)

    def work(self, *names: str) -> str:
        """A file that is kept until the stage has finished."""
        return storage.join(stages.work_folder(self.output), *names)

    def run_units(self, work: Callable[[Any], Any], units: Sequence[Any], phase: str) -> list[Any]:
        """Runs a phase's units that have not finished yet."""
        return engine.run_units(
            work,
            units,
            workers=self._workers(),
            description=f"corpus: {phase}",
            ledger=stages.unit_ledger(self.output, phase),
        )

    def _workers(self) -> Workers:
        """As asked for; by default one for so little text that starting processes takes longer."""
        workers = Workers.of(self.config)
        if workers.num_workers == 0 and self.guessed_bytes < _FEW_BYTES:
            return dataclasses.replace(workers, num_workers=1)
        return workers


def num_ranges(num_bytes: int, bytes_per_range: int) -> int:
    """Into how many ranges of hashes so much text is cut."""
    return min(MAX_RANGES, cells.num_ranges(num_bytes, bytes_per_range))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadUnit:
    """Segments to read, and the file for the runs."""

    job: Job
    segments: tuple[Segment, ...]
    spill: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class SortUnit:
    """A range of hashes to gather from the runs."""

    job: Job
    spills: tuple[str, ...]
    index: int
    num_buckets: int
    num_band_cells: int

    @property
    def bands(self) -> str:
        """The file of the range's signatures."""
        return self.job.work("bands", f"{self.index:06d}.arrow")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompareUnit:
    """A range of bands to look for near duplicates in."""

    job: Job
    bands: tuple[str, ...]
    index: int
    num_band_cells: int

    @property
    def pairs(self) -> str:
        """The file of what was found."""
        return self.job.work("pairs", f"{self.index:06d}.arrow")


@dataclasses.dataclass(frozen=True, kw_only=True)
class WriteUnit:
    """A part to write, without the near duplicates if those are to be dropped."""

    job: Job
    part: Part
    pairs: tuple[str, ...]


def read(unit: ReadUnit) -> dict[str, Any]:
    """Reads, cleans and filters segments: counts in all, and by reason and by source."""
    totals: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    num_read: collections.Counter[str] = collections.Counter()
    with storage.atomic_writer(unit.spill) as file:
        spiller = Spiller(file, unit.job.num_cells, unit.job.spill_bytes)
        for segment in unit.segments:
            for block in reading.read_segment(segment, unit.job.config):
                cleaned = clean(block, unit.job.config.unicode_form)
                reasons.update(_spill(spiller, cleaned, segment, unit.job.config))
                number = len(cleaned.texts) + cleaned.num_blank
                num_read[segment.file.source] += number
                totals.update(
                    num_read=number,
                    num_blank=cleaned.num_blank,
                    num_bad_bytes=block.num_bad_bytes,
                    num_controls=cleaned.num_controls,
                    text_bytes=cleaned.text_bytes,
                )
        spiller.close()
    return {"totals": dict(totals), "dropped": dict(reasons), "sources": dict(num_read)}


def _spill(
    spiller: Spiller, cleaned: CleanBlock, segment: Segment, config: CorpusConfig
) -> dict[str, int]:
    """Hands on what passes the filters (or all, if what is dropped is to be kept)."""
    texts, file = cleaned.texts, segment.file
    digests = shuffle.hash_texts(texts)
    reasons = filters.reasons_of(texts, config)
    if (share := config.shares().get(file.source, 1.0)) < 1:
        left_out = shuffle.is_left_out(shuffle.keys_of(digests), share)
        reasons[left_out & (reasons == 0)] = filters.code_of(Reason.LEFT_OUT)
    counts = np.bincount(reasons, minlength=len(filters.CODES))
    if counts[0] < len(texts) and not config.keep_dropped:
        is_kept = reasons == 0
        ids = np.frombuffer(digests, np.uint8).reshape(-1, shuffle.DOC_ID_BYTES)
        texts, digests = texts.filter(pa.array(is_kept)), ids[is_kept].tobytes()
        reasons = reasons[is_kept]
    own_split = 1 + SPLITS.index(file.own_split) if file.own_split else shuffle.NO_SPLIT
    spiller.add(texts, digests, file.source, own_split, reasons)
    return {
        str(reason): int(count)
        for reason, count in zip(filters.CODES, counts, strict=True)
        if reason and count
    }


def sort(unit: SortUnit) -> dict[str, Any]:
    """Deduplicates and sorts a range of hashes: what each split got, and what stood out."""
    bucket = shuffle.read_bucket(
        unit.spills,
        unit.job.config,
        index=unit.index,
        num_buckets=unit.num_buckets,
        num_cells=unit.job.num_cells,
    )
    tables = {
        split: bucket.documents.filter(pa.array(bucket.split == number))
        for number, split in enumerate(SPLITS)
    }
    if unit.job.config.keep_dropped:
        tables[DROPPED] = bucket.dropped
    if unit.job.config.near_duplicates != NearDuplicates.IGNORE:
        near_duplicates.write_bands(
            unit.bands,
            bucket.documents.column("text"),
            bucket.hashes,
            bucket.split,
            num_cells=unit.num_band_cells,
        )
    return {
        "pieces": {name: _write_piece(unit, name, table) for name, table in tables.items()},
        "num_duplicates": bucket.num_duplicates,
        "contamination": bucket.contamination,
        "contaminated": bucket.contaminated,
        "repeated": bucket.repeated,
    }


def _write_piece(unit: SortUnit, name: str, table: pa.Table) -> dict[str, Any]:
    path = unit.job.work("pieces", f"{name}-{unit.index:06d}.arrow") if len(table) else ""
    if path:
        parts.write_piece(path, table)
    return {"path": path, "text_bytes": parts.text_bytes(table)}


def compare(unit: CompareUnit) -> dict[str, Any]:
    """Finds near duplicates within a range of bands."""
    num_pairs = near_duplicates.find_pairs(
        unit.bands,
        unit.pairs,
        unit.job.config.near_duplicate_similarity,
        index=unit.index,
        num_cells=unit.num_band_cells,
    )
    return {"num_pairs": num_pairs}


def write(unit: WriteUnit) -> dict[str, Any]:
    """Writes a part: its entry in the manifest, its measures, some documents, near duplicates."""
    part, config = unit.part, unit.job.config
    pairs = near_duplicates.read_pairs(unit.pairs, index=part.index, num_ranges=part.num_parts)
    near = _NearDuplicatesOfPart(pairs, drop=config.near_duplicates == NearDuplicates.DROP)
    measures, sample = Measures(), list[dict[str, str]]()

    def groups() -> Iterator[pa.Table]:
        for documents in parts.row_groups(part.pieces):
            kept = near.take(documents)
            measures.add(kept)
            sample.extend(kept.slice(0, _SAMPLE_DOCUMENTS - len(sample)).to_pylist())
            yield kept

    parts.write_part(storage.join(unit.job.output, part.path), groups())
    if config.keep_dropped and near.dropped:
        near.write_dropped(unit.job.output, part)
    entry = artifacts.file_entry(
        unit.job.output,
        part.path,
        counts={"num_documents": measures.num_documents, "text_bytes": measures.text_bytes},
    )
    return {
        "split": part.split,
        "entry": entry.to_dict(),
        "measures": measures.to_dict(),
        "sample": sample if part.index == 0 else [],
        "near_duplicates": near.summary(),
    }


class _NearDuplicatesOfPart:
    """Which documents of a part are near duplicates; takes them out if they are to be dropped."""

    def __init__(self, pairs: pa.Table, *, drop: bool) -> None:
        self._pairs, self._drop = pairs, drop
        self._number = 0
        self._examples: list[dict[str, Any]] = []
        self.dropped: list[pa.Table] = []

    def take(self, documents: pa.Table) -> pa.Table:
        """The documents that stay; the others are counted and remembered."""
        if not len(self._pairs):
            return documents
        is_near = near_duplicates.is_among(documents.column("doc_id"), self._pairs)
        near = documents.filter(is_near)
        self._number += len(near)
        for row in near.slice(0, _NEAR_EXAMPLES - len(self._examples)).to_pylist():
            self._examples.append({**row, **self._pair_of(row["doc_id"])})
        if not self._drop:
            return documents
        self.dropped.append(near)
        return documents.filter(pc.invert(is_near))

    def _pair_of(self, doc_id: str) -> dict[str, Any]:
        document = pa.scalar(int(doc_id[:16], 16), pa.uint64())
        pair = self._pairs.filter(pc.equal(self._pairs.column("document"), document)).to_pylist()[0]
        return {
            "near": pair["near"],
            "near_split": SPLITS[pair["near_split"]],
            "similarity": round(pair["similarity"], 3),
        }

    def write_dropped(self, output: str, part: Part) -> None:
        """Writes what was dropped, as `shuffle.DROPPED_SCHEMA`."""
        table = pa.concat_tables(self.dropped)
        number = len(table)
        table = table.append_column("reason", pa.repeat(str(Reason.NEAR_DUPLICATE), number))
        table = table.append_column("copies", pa.array(np.ones(number, np.int64)))
        name = part.path.replace("/part-", "-").replace(".parquet", "-near-duplicates.parquet")
        parts.write_part(storage.join(output, DROPPED, name), [table], shuffle.DROPPED_SCHEMA)

    def summary(self) -> Mapping[str, Any]:
        """How many there are in the part, and the first few."""
        return {"number": self._number, "examples": self._examples}
