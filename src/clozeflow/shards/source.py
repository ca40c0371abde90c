"""A split of shards as arrays: any rows of any shard, checked and decoded in bulk.

Shapes: N examples, T tokens in each.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses

import numpy as np

from clozeflow.artifacts import Artifact, FileEntry
from clozeflow.errors import UserError
from clozeflow.shards import fetch, records
from clozeflow.shards.fetch import ShardCache

Examples = tuple[np.ndarray, np.ndarray]
"""int32 [N, T] input_ids and uint8 [N, T] attention_mask."""

_FETCHES_AT_ONCE = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """The shards of one split."""

    shards: Artifact
    files: tuple[FileEntry, ...]
    seq_len: int
    cache: ShardCache | None = None

    @classmethod
    def open(cls, shards: Artifact, split: str, cache: ShardCache | None = None) -> Source:
        """The split's files, compared with the manifest (see `fetch.check_split`).

        Raises:
            UserError: There is no such split, it has no examples, or a file is missing or cut.
        """
        found = shards.manifest.splits.get(split)
        if not found or not sum(file.counts["num_examples"] for file in found.files):
            raise UserError(
                shards.uri,
                f"has no examples in the split {split!r}",
                got=f"splits {', '.join(sorted(shards.manifest.splits)) or 'none'}",
                fix="Give shards that have it, or another split.",
            )
        fetch.check_split(shards, split)
        return cls(
            shards=shards,
            files=found.files,
            seq_len=int(shards.manifest.properties["seq_len"]),
            cache=cache,
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Examples in each shard."""
        return tuple(file.counts["num_examples"] for file in self.files)

    def read(self, shard: int, rows: np.ndarray | None = None) -> Examples:
        """Rows of one shard (all of them if `rows` is None), in the order asked for."""
        return self._decode(shard, self._content(shard), rows)

    def gather(self, shards: np.ndarray, rows: np.ndarray) -> Examples:
        """Rows of several shards, numbered from 0 through all of them end to end."""
        ends = np.cumsum([self.sizes[shard] for shard in shards])
        place = np.searchsorted(ends, rows, side="right")
        input_ids = np.empty((len(rows), self.seq_len), np.int32)
        attention_mask = np.empty((len(rows), self.seq_len), np.uint8)
        with concurrent.futures.ThreadPoolExecutor(_FETCHES_AT_ONCE) as pool:
            for index, content in enumerate(pool.map(self._content, shards)):
                where = np.flatnonzero(place == index)
                first = ends[index] - self.sizes[shards[index]]
                decoded = self._decode(shards[index], content, rows[where] - first)
                input_ids[where], attention_mask[where] = decoded
        return input_ids, attention_mask

    def _content(self, shard: int) -> bytes:
        return fetch.read_shard(self.shards, self.files[shard], self.cache)

    def _decode(self, shard: int, content: bytes, rows: np.ndarray | None) -> Examples:
        entry = self.files[shard]
        location = self.shards.path(entry.path)
        try:
            bounds = records.scan(content)
            if len(bounds) != entry.counts["num_examples"]:
                raise UserError(
                    location,
                    "has another number of examples than the manifest says",
                    got=f"{len(bounds):,}",
                    expected=f"{entry.counts['num_examples']:,}",
                    fix="Delete the folder and run `clozeflow shard` again.",
                )
        except records.DamagedRecordError as error:
            raise fetch.damaged(location, str(error)) from None
        # The manifest's SHA-256 covers the payloads: their own checksums would say nothing more.
        return decode(location, content, bounds if rows is None else bounds[rows], self.seq_len)


def decode(location: str, content: bytes, bounds: np.ndarray, seq_len: int) -> Examples:
    """Examples in serialised form, at `bounds` (int64 [N, 2]) of the content, as arrays.

    Raises:
        UserError: They are not of this length, or no examples of ours at all.
    """
    parsed = records.parse(content, bounds, seq_len)
    if parsed is not None:
        return parsed
    return _parse_any(location, [content[start:end] for start, end in bounds.tolist()], seq_len)


def seq_len_of(location: str, payload: bytes) -> int:
    """How many tokens an example in serialised form has.

    Raises:
        UserError: It is no example with `input_ids`.
    """
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    try:
        features = tf.train.Example.FromString(payload).features.feature
    except DecodeError:
        features = {}
    if "input_ids" not in features or not features["input_ids"].int64_list.value:
        raise UserError(
            location,
            "holds no examples with a list of integers `input_ids`",
            got=", ".join(sorted(features)) or "none",
            fix="Give shards of tokenized text.",
        )
    return len(features["input_ids"].int64_list.value)


def _parse_any(location: str, payloads: list[bytes], seq_len: int) -> Examples:
    """The same for messages in a form that other writers may choose."""
    import tensorflow as tf

    feature = tf.io.FixedLenFeature([seq_len], tf.int64)
    try:
        parsed = tf.io.parse_example(payloads, {"input_ids": feature, "attention_mask": feature})
    except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
        raise UserError(
            location,
            f"holds no examples of {seq_len} tokens: {error.message}",
            fix="Give shards of this length, with `input_ids` and `attention_mask`.",
        ) from None
    input_ids, attention_mask = (parsed[name].numpy() for name in ("input_ids", "attention_mask"))
    if (input_ids != input_ids.astype(np.int32)).any() or ((attention_mask >> 1) != 0).any():
        raise UserError(
            location,
            "holds ids that are no int32, or a mask of other values than 0 and 1",
            fix="Make the shards again.",
        )
    return input_ids.astype(np.int32), attention_mask.astype(np.uint8)
