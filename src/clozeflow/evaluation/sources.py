"""Questions by the source of their text, where the shards tell it (see `shards.provenance`)."""

from __future__ import annotations

import functools
from collections import Counter

import numpy as np
import numpy.typing as npt

from clozeflow.artifacts import Artifact
from clozeflow.evaluation.questions import Questions
from clozeflow.shards.provenance import Runs, read_runs

MAX_SOURCES = 20
"""Groups of their own; a corpus may have a source for each of its files."""

Groups = npt.NDArray[np.int64]


class SourceGroups:
    """The sources with the most text in a split, the largest first; all others are one group."""

    def __init__(self, shards: Artifact, split: str, sizes: Counter[str]) -> None:
        self._shards, self._files = shards, shards.manifest.splits[split].files
        self._ends = np.cumsum([file.counts["num_examples"] for file in self._files])
        by_size = sorted(sizes, key=lambda name: (-sizes[name], name))
        self._group = {name: group for group, name in enumerate(by_size[:MAX_SOURCES])}
        num_others = len(by_size) - len(self._group)
        others = (f"{num_others:,} other sources",) if num_others else ()
        self.names = (*self._group, *others)
        self._runs = functools.lru_cache(maxsize=2)(self._read)  # rows come in the files' order

    @classmethod
    def open(cls, shards: Artifact, split: str) -> SourceGroups | None:
        """The groups of a split's questions, or None where its shards do not tell the sources."""
        sizes: Counter[str] = Counter()
        for file in shards.manifest.splits[split].files:
            runs = read_runs(shards, file)
            if runs is None:
                return None
            sizes.update(dict(zip(runs.names, runs.num_tokens.tolist(), strict=True)))
        return cls(shards, split, +sizes)

    def group_of(self, questions: Questions) -> Groups:
        """[N]: the index in `names` of each question's group."""
        rows = questions.row_numbers[questions.batch_index]
        files = np.searchsorted(self._ends, rows, side="right")
        groups = np.empty(len(rows), np.int64)
        for index in np.unique(files).tolist():
            chosen = files == index
            first = self._ends[index] - self._files[index].counts["num_examples"]
            runs, group_of_source = self._runs(index)
            width = questions.input_ids.shape[1]
            places = questions.positions[chosen]
            sources = runs.source_at(rows[chosen] - first, places, seq_len=width)
            groups[chosen] = group_of_source[sources]
        return groups

    def _read(self, index: int) -> tuple[Runs, Groups]:
        runs = read_runs(self._shards, self._files[index])
        assert runs is not None, self._files[index].path
        other = len(self._group)
        return runs, np.array([self._group.get(name, other) for name in runs.names], np.int64)
