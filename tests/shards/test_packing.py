import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clozeflow.shards import packing
from clozeflow.shards.packing import BOS_ID, EOS_ID, PAD_ID

# Ids that say which document they are of, so that an order can be read off them.
LENGTHS = st.lists(st.integers(0, 40), max_size=30)


def pack(lengths, seq_len, batches=1):
    """All rows of the documents, given in some batches."""
    ids = np.arange(100, 100 + sum(lengths), dtype=np.int32)
    ends = np.cumsum([0, *lengths])
    rest, parts = np.empty(0, np.int32), []
    for chosen in np.array_split(np.arange(len(lengths)), batches):
        start, stop = (ends[chosen[0]], ends[chosen[-1] + 1]) if len(chosen) else (0, 0)
        stream = packing.to_stream(ids[start:stop], np.array(lengths, np.int64)[chosen])
        rows, rest = packing.full_rows(np.concatenate([rest, stream]), seq_len)
        parts.append(rows)
    return ids, packing.concatenate([*parts, packing.last_row(rest, seq_len)], seq_len)


@given(LENGTHS, st.integers(8, 20))
def test_every_token_stands_in_exactly_one_row_in_order(lengths, seq_len):
    ids, rows = pack(lengths, seq_len)
    tokens = rows.input_ids[rows.input_ids >= 100]
    np.testing.assert_array_equal(tokens, ids)


@given(LENGTHS, st.integers(8, 20), st.integers(1, 5))
def test_rows_do_not_depend_on_batches(lengths, seq_len, batches):
    _, once = pack(lengths, seq_len)
    _, often = pack(lengths, seq_len, batches)
    np.testing.assert_array_equal(once.input_ids, often.input_ids)
    np.testing.assert_array_equal(once.num_padding, often.num_padding)


@given(LENGTHS, st.integers(8, 20))
def test_the_form_of_a_row(lengths, seq_len):
    _, rows = pack(lengths, seq_len)
    for index, (row, mask) in enumerate(zip(rows.input_ids, rows.attention_mask, strict=True)):
        used = row[mask == 1]
        assert used[0] == BOS_ID
        assert used[-1] == EOS_ID
        assert (row[mask == 0] == PAD_ID).all()
        assert (mask == 0).sum() <= 1 or index == len(rows) - 1
        inner = used[1:-1]
        assert not np.isin(inner, [BOS_ID, PAD_ID]).any()
        ends = np.flatnonzero(used == EOS_ID)
        assert (np.diff(ends) > 1).all(), "an empty document"
        assert used[1] != EOS_ID


def test_documents_are_separated():
    _, rows = pack([3, 2, 6], 8)
    assert rows.input_ids.tolist() == [
        [0, 100, 101, 102, 2, 103, 104, 2],
        [0, 105, 106, 107, 108, 109, 110, 2],
    ]
    assert rows.num_padding.tolist() == [0, 0]


def test_a_place_too_small_for_a_document_is_padded():
    _, rows = pack([5, 6], 8)
    assert rows.input_ids.tolist() == [
        [0, 100, 101, 102, 103, 104, 2, 1],
        [0, 105, 106, 107, 108, 109, 110, 2],
    ]


def test_no_documents_give_no_rows():
    assert len(pack([], 8)[1]) == 0
    assert len(pack([0, 0], 8)[1]) == 0
