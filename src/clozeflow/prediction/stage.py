"""The predict stage: files of texts, a part at a time, to files of answers or vectors.

A part is a range of one file's rows. Parts are independent units of work (`engine.run_units`):
they run in several processes, and after a kill only those that were not finished run again.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping

from clozeflow import artifacts, engine, stages, storage
from clozeflow.artifacts import Artifact, ArtifactType, Split
from clozeflow.errors import UserError
from clozeflow.evaluation import files
from clozeflow.evaluation.embed import Embedder
from clozeflow.evaluation.models import MaskedLanguageModel, open_model
from clozeflow.evaluation.predict import FillMask
from clozeflow.evaluation.rows import Format, read_rows, write_rows
from clozeflow.prediction import examples
from clozeflow.prediction.config import PredictConfig, Produced

ROWS_PER_PART = 65_536
"""Minutes of work, so that opening the model counts for little and a kill loses little."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """A range of a file's rows, and where the results go."""

    model: str
    shards: str
    """The folder of the Shards that the file belongs to; "" for a file of texts."""
    location: str
    """The file."""
    first_row: int
    num_rows: int
    output: str
    """The folder."""
    path: str
    """The file's, in that folder."""
    config: PredictConfig


def run(config: PredictConfig, inputs: Mapping[str, Artifact], output: str) -> stages.Outcome:
    """Answers, or embeds, every row of a data set; all rows are checked before the first is.

    Raises:
        UserError: There is no file of texts, or a row that cannot be worked on.
    """
    sizes = count_rows(config, inputs["model"], inputs["dataset"])
    parts = divide(sizes, config, inputs, output)
    engine.run_units(
        predict_part,
        parts,
        workers=engine.Workers(num_workers=config.num_workers),
        description="predict",
        ledger=stages.unit_ledger(output, "predict"),
    )
    entries = (
        artifacts.file_entry(output, part.path, counts={"num_rows": part.num_rows})
        for part in parts
    )
    return stages.Outcome(
        splits={"all": Split(files=tuple(entries))},
        properties={"produced": config.produce.value, "num_files_read": len(sizes)},
    )


def count_rows(config: PredictConfig, model: Artifact, dataset: Artifact) -> dict[str, int]:
    """The number of rows of each file, after every row was checked."""
    if dataset.manifest.type != ArtifactType.SHARDS:
        work = _work(model.uri, config)
        return {found: files.check_rows(found, work) for found in find_files(dataset)}
    if config.produce is not Produced.VECTORS:
        raise UserError(
            f"--dataset {dataset.uri}",
            "are shards: their examples have no masks to answer",
            fix="Ask for --produce vectors, or let clozeflow evaluate ask for their words.",
        )
    examples.check_shards(model, _opened(model.uri), dataset)
    return examples.num_examples(dataset)


def find_files(dataset: Artifact) -> list[str]:
    """The data set's files that hold rows, by their names' endings.

    Raises:
        UserError: There is none.
    """
    names = [entry.path for entry in dataset.manifest.all_files()]
    found = [dataset.path(name) for name in names if name.lower().endswith(tuple(Format))]
    if not found:
        raise UserError(
            f"--dataset {dataset.uri}",
            "holds no file of texts",
            got=", ".join(names[:3]),
            expected=f"names that end in {', '.join(Format)}",
            fix="Give a folder, or a file, of texts.",
        )
    return found


def divide(
    sizes: Mapping[str, int], config: PredictConfig, inputs: Mapping[str, Artifact], output: str
) -> list[Part]:
    """Parts of at most `ROWS_PER_PART` rows, in the order of the files and their rows.

    Args:
        sizes: The number of rows of each file.
        config: The settings.
        inputs: The model and the data set.
        output: The folder for the results.
    """
    dataset = inputs["dataset"]
    ranges = [
        (location, first, min(ROWS_PER_PART, size - first))
        for location, size in sizes.items()
        for first in range(0, size, ROWS_PER_PART)
    ]
    return [
        Part(
            model=inputs["model"].uri,
            shards=dataset.uri if dataset.manifest.type == ArtifactType.SHARDS else "",
            location=location,
            first_row=first,
            num_rows=num_rows,
            output=output,
            path=f"part-{index:05d}-of-{len(ranges):05d}.{config.output_format}",
            config=config,
        )
        for index, (location, first, num_rows) in enumerate(ranges)
    ]


def predict_part(part: Part) -> int:
    """Works on one part; returns its number of rows."""
    config, location = part.config, storage.join(part.output, part.path)
    if part.shards:
        batches = examples.embed_examples(
            Embedder(_opened(part.model)),
            _shards(part.shards),
            part.location,
            first=part.first_row,
            count=part.num_rows,
        )
        return write_rows(location, batches)
    rows = (row for _, row in read_rows(part.location, text_field=config.text_field))
    own = itertools.islice(rows, part.first_row, part.first_row + part.num_rows)
    return write_rows(location, files.extended(own, _work(part.model, config)))


def _work(model: str, config: PredictConfig) -> files.Work:
    opened = _opened(model)
    if config.produce is Produced.VECTORS:
        return files.embedding(Embedder(opened), text_field=config.text_field)
    return files.answering(
        FillMask(opened),
        text_field=config.text_field,
        top_k=config.top_k,
        targets=config.targets,
    )


@functools.lru_cache(maxsize=1)
def _opened(model: str) -> MaskedLanguageModel:
    """Once in each process."""
    return open_model(model)


@functools.lru_cache(maxsize=1)
def _shards(folder: str) -> Artifact:
    return artifacts.open_artifact(folder, ArtifactType.SHARDS, name="dataset")
