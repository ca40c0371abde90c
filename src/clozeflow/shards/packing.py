"""Documents to rows of a fixed length, so that every token stands in exactly one row.

Documents follow each other in a stream, each followed by `</s>`. A row is `<s>`, then `seq_len`
- 2 tokens of the stream, then `</s>`: the stream's own where a document ends there, else one put
in. Where a document's own `</s>` comes a place early and nothing more fits, the row ends with
one padding instead of a second `</s>`. What does not fill a row is carried to the next batch
of documents.

Shapes: N rows, T = `seq_len`; a batch of documents is its ids end to end, and their lengths.
"""

from __future__ import annotations

import dataclasses

import numpy as np

NUM_SPECIAL = 5
BOS_ID, PAD_ID, EOS_ID, UNK_ID, MASK_ID = range(NUM_SPECIAL)
"""`<s>`, `<pad>`, `</s>`, `<unk>`, `<mask>`: the ids that every tokenizer here has."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rows:
    """Packed examples."""

    input_ids: np.ndarray
    """int32 [N, T]."""
    num_padding: np.ndarray
    """int32 [N]: how many places at the row's end are padding."""

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

    def take(self, order: np.ndarray) -> Rows:
        """The rows at these indices."""
        return Rows(input_ids=self.input_ids[order], num_padding=self.num_padding[order])


def concatenate(parts: list[Rows], seq_len: int) -> Rows:
    """Rows of rows; none give an empty one."""
    empty = Rows(input_ids=np.empty((0, seq_len), np.int32), num_padding=np.empty(0, np.int32))
    parts = [empty, *parts]
    return Rows(
        input_ids=np.concatenate([part.input_ids for part in parts]),
        num_padding=np.concatenate([part.num_padding for part in parts]),
    )


def to_stream(ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Documents end to end, each followed by `</s>`; one without tokens leaves no trace."""
    lengths = lengths[lengths > 0]
    stream = np.empty(len(ids) + len(lengths), np.int32)
    ends = np.cumsum(lengths) + np.arange(len(lengths))
    is_token = np.ones(len(stream), bool)
    is_token[ends] = False
    stream[is_token] = ids
    stream[ends] = EOS_ID
    return stream


def full_rows(stream: np.ndarray, seq_len: int) -> tuple[Rows, np.ndarray]:
    """The rows that the stream fills, and the rest of it (less than a row)."""
    room = seq_len - 2
    is_end = (stream == EOS_ID).tobytes()
    starts, start = [], 0
    while start + room < len(stream):
        starts.append(start)
        start += room + is_end[start + room]
    if start + room == len(stream):  # the last document's </s> comes a place early
        starts.append(start)
        start = len(stream)
    return _gather(stream, np.array(starts, np.int64), seq_len), stream[start:]


def last_row(rest: np.ndarray, seq_len: int) -> Rows:
    """A padded row of what `full_rows` left over; no row if that is nothing."""
    rows = concatenate([], seq_len)
    if not len(rest):
        return rows
    # The rest ends with its document's </s>, which ends the row too.
    row = np.full((1, seq_len), PAD_ID, np.int32)
    row[0, 0] = BOS_ID
    row[0, 1 : len(rest) + 1] = rest
    return Rows(input_ids=row, num_padding=np.array([seq_len - 1 - len(rest)], np.int32))


def _gather(stream: np.ndarray, starts: np.ndarray, seq_len: int) -> Rows:
    rows = np.empty((len(starts), seq_len), np.int32)
    rows[:, 0] = BOS_ID
    rows[:, 1:-1] = stream[starts[:, None] + np.arange(seq_len - 2)]
    ends_early = rows[:, -2] == EOS_ID
    rows[:, -1] = np.where(ends_early, PAD_ID, EOS_ID)
    return Rows(input_ids=rows, num_padding=ends_early.astype(np.int32))
