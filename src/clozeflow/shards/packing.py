"""Documents to rows of a fixed length, so that every token stands in exactly one row.

A packing has two parts. `join` puts documents into a stream of ids, with special tokens between
them. `cut` takes from a stream the rows that it fills, and hands back the rest, which is put
before the next documents; the very last rest is padded. Rows do not depend on how many documents
are joined at a time.

Packing by documents: each document is followed by `</s>` in the stream. A row is `<s>`, then
`seq_len` - 2 ids of the stream, then `</s>`: the stream's own where a document ends there, else one
put in. Where a document's own `</s>` comes a place early, nothing more fits, and the row ends
with one padding instead of a second `</s>`.

Shapes: N rows, T = `seq_len`; documents are given as their ids end to end, and their lengths.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from clozeflow.shards.config import Packing
from clozeflow.tokenizer.special import SpecialIds


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rows:
    """Packed examples."""

    input_ids: np.ndarray
    """int32 [N, T], or uint16 (see `narrowed`)."""
    num_padding: np.ndarray
    """int32 [N]: how many places at the row's end are padding."""
    starts: np.ndarray
    """int64 [N]: where in the stream that they were cut from the rows begin."""

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def attention_mask(self) -> np.ndarray:
        """uint8 [N, T]: 1 where a token stands, 0 on padding."""
        seq_len = self.input_ids.shape[1]
        return (np.arange(seq_len) < (seq_len - self.num_padding)[:, None]).astype(np.uint8)

    @property
    def num_tokens(self) -> int:
        """Places that are no padding."""
        return self.input_ids.size - int(self.num_padding.sum())

    def take(self, order: np.ndarray | slice) -> Rows:
        """The rows at these indices."""
        return Rows(
            input_ids=self.input_ids[order],
            num_padding=self.num_padding[order],
            starts=self.starts[order],
        )

    def behind(self, num_ids: int) -> Rows:
        """The same rows, of a stream that so many ids were put before."""
        return dataclasses.replace(self, starts=self.starts + num_ids)

    def narrowed(self, vocab_size: int) -> Rows:
        """The same rows in half the memory, where the vocabulary allows it."""
        if vocab_size > 1 << 16:
            return self
        return dataclasses.replace(self, input_ids=self.input_ids.astype(np.uint16))


def concatenate(parts: list[Rows], seq_len: int) -> Rows:
    """Rows of rows; none give an empty one."""
    empty = Rows(
        input_ids=np.empty((0, seq_len), np.uint16),
        num_padding=np.empty(0, np.int32),
        starts=np.empty(0, np.int64),
    )
    parts = [empty, *parts]
    return Rows(
        input_ids=np.concatenate([part.input_ids for part in parts]),
        num_padding=np.concatenate([part.num_padding for part in parts]),
        starts=np.concatenate([part.starts for part in parts]),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DocumentPacker:
    """`Packing.DOCUMENTS`; see the module."""

    num_put_around = 1
    """Ids that a row has before those of the stream, and places that it leaves behind them."""

    seq_len: int
    ids: SpecialIds

    def lengths_in_stream(self, lengths: np.ndarray) -> np.ndarray:
        """How many ids of the stream documents of these numbers of tokens are."""
        return lengths + (lengths > 0)

    def join(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """The stream of these documents; one without tokens leaves no trace."""
        return _stream(ids, lengths, before=(), after=(self.ids.eos,))

    def cut(self, stream: np.ndarray) -> tuple[Rows, np.ndarray]:
        """The rows that the stream fills, and the rest of it (less than a row)."""
        room = self.seq_len - 2
        is_end = (stream == self.ids.eos).tobytes()
        starts, start = [], 0
        while start + room < len(stream):
            starts.append(start)
            start += room + is_end[start + room]
        if start + room == len(stream):  # the last document's </s> comes a place early
            starts.append(start)
            start = len(stream)
        return self._rows(stream, np.array(starts, np.int64)), stream[start:]

    def pad(self, rest: np.ndarray) -> Rows:
        """A padded row of what `cut` left over; no row if that is nothing."""
        # The rest ends with its document's </s>, which ends the row too.
        row = np.append(np.int32(self.ids.bos), rest) if len(rest) else rest
        return _padded(row, self.seq_len, self.ids.pad)

    def _rows(self, stream: np.ndarray, starts: np.ndarray) -> Rows:
        rows = np.empty((len(starts), self.seq_len), np.int32)
        rows[:, 0] = self.ids.bos
        if len(starts):
            windows = np.lib.stride_tricks.sliding_window_view(stream, self.seq_len - 2)
            rows[:, 1:-1] = windows[starts]
        ends_early = rows[:, -2] == self.ids.eos
        rows[:, -1] = np.where(ends_early, self.ids.pad, self.ids.eos)
        return Rows(input_ids=rows, num_padding=ends_early.astype(np.int32), starts=starts)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StreamPacker:
    """`Packing.STREAM`: each document within `<s>` and `</s>`, rows cut anywhere."""

    num_put_around = 0

    seq_len: int
    ids: SpecialIds

    def lengths_in_stream(self, lengths: np.ndarray) -> np.ndarray:
        """How many ids of the stream documents of these numbers of tokens are."""
        return lengths + 2 * (lengths > 0)

    def join(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """The stream of these documents; one without tokens leaves no trace."""
        return _stream(ids, lengths, before=(self.ids.bos,), after=(self.ids.eos,))

    def cut(self, stream: np.ndarray) -> tuple[Rows, np.ndarray]:
        """The rows that the stream fills, and the rest of it (less than a row)."""
        num_rows = len(stream) // self.seq_len
        rows = stream[: num_rows * self.seq_len].reshape(num_rows, self.seq_len)
        no_padding = np.zeros(num_rows, np.int32)
        starts = np.arange(num_rows, dtype=np.int64) * self.seq_len
        return Rows(input_ids=rows, num_padding=no_padding, starts=starts), stream[rows.size :]

    def pad(self, rest: np.ndarray) -> Rows:
        """A padded row of what `cut` left over; no row if that is nothing."""
        return _padded(rest, self.seq_len, self.ids.pad)


Packer = DocumentPacker | StreamPacker


def packer(packing: Packing, *, seq_len: int, ids: SpecialIds) -> Packer:
    """What cuts documents in the way asked for."""
    if packing is Packing.STREAM:
        return StreamPacker(seq_len=seq_len, ids=ids)
    return DocumentPacker(seq_len=seq_len, ids=ids)


def _stream(
    ids: np.ndarray, lengths: np.ndarray, *, before: tuple[int, ...], after: tuple[int, ...]
) -> np.ndarray:
    """Documents end to end, with these special ids around each that has any tokens."""
    lengths = lengths[lengths > 0] + len(before) + len(after)
    ends = np.cumsum(lengths)
    stream = np.empty(int(lengths.sum()), np.int32)
    is_token = np.ones(len(stream), bool)
    for places, special in (
        *((ends - lengths + offset, special) for offset, special in enumerate(before)),
        *((ends - len(after) + offset, special) for offset, special in enumerate(after)),
    ):
        stream[places] = special
        is_token[places] = False
    stream[is_token] = ids
    return stream


def _padded(tokens: np.ndarray, seq_len: int, pad_id: int) -> Rows:
    """One row of these tokens and padding; none if there are no tokens."""
    rows = np.full((1 if len(tokens) else 0, seq_len), pad_id, np.int32)
    rows[:, : len(tokens)] = tokens
    num_padding = np.full(len(rows), seq_len - len(tokens), np.int32)
    starts = np.zeros(len(rows), np.int64)
    return Rows(input_ids=rows, num_padding=num_padding, starts=starts)
