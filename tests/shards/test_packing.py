import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeflow.shards import packing
from clozeflow.shards.config import Packing
from clozeflow.tokenizer.special import SpecialIds

OURS = SpecialIds()
BOS_ID, PAD_ID, EOS_ID = OURS.bos, OURS.pad, OURS.eos

# Ids that say which document they are of, so that an order can be read off them.
LENGTHS = st.lists(st.integers(0, 40), max_size=30)
PACKINGS = st.sampled_from(Packing)


def pack(lengths, seq_len, batches=1, *, kind=Packing.DOCUMENTS, ids=OURS):
    """All rows of the documents, given in some batches."""
    packer = packing.packer(kind, seq_len=seq_len, ids=ids)
    tokens = np.arange(100, 100 + sum(lengths), dtype=np.int32)
    ends = np.cumsum([0, *lengths])
    rest, parts = np.empty(0, np.int32), []
    for chosen in np.array_split(np.arange(len(lengths)), batches):
        start, stop = (ends[chosen[0]], ends[chosen[-1] + 1]) if len(chosen) else (0, 0)
        stream = packer.join(tokens[start:stop], np.array(lengths, np.int64)[chosen])
        rows, rest = packer.cut(np.concatenate([rest, stream]))
        parts.append(rows)
    return tokens, packing.concatenate([*parts, packer.pad(rest)], seq_len)


@given(LENGTHS, st.integers(8, 20), PACKINGS)
def test_every_token_stands_in_exactly_one_row_in_order(lengths, seq_len, kind):
    ids, rows = pack(lengths, seq_len, kind=kind)
    tokens = rows.input_ids[rows.input_ids >= 100]
    np.testing.assert_array_equal(tokens, ids)


@given(LENGTHS, st.integers(8, 20), st.integers(1, 5), PACKINGS)
def test_rows_do_not_depend_on_batches(lengths, seq_len, batches, kind):
    _, once = pack(lengths, seq_len, kind=kind)
    _, often = pack(lengths, seq_len, batches, kind=kind)
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


@given(LENGTHS, st.integers(8, 20))
def test_a_stream_is_what_the_hugging_face_scripts_cut(lengths, seq_len):
    _, rows = pack(lengths, seq_len, kind=Packing.STREAM)
    documents = np.split(np.arange(100, 100 + sum(lengths)), np.cumsum(lengths)[:-1])
    stream = [i for d in documents if len(d) for i in (BOS_ID, *d.tolist(), EOS_ID)]
    assert rows.input_ids[rows.attention_mask == 1].tolist() == stream
    assert all(mask.all() for mask in rows.attention_mask[:-1])


def test_special_ids_are_the_tokenizers_own():
    ids = SpecialIds(bos=7, pad=8, eos=9)
    assert pack([3, 2], 9, ids=ids)[1].input_ids.tolist() == [[7, 100, 101, 102, 9, 103, 104, 9, 8]]


@pytest.mark.parametrize("kind", Packing)
def test_no_documents_give_no_rows(kind):
    assert len(pack([], 8, kind=kind)[1]) == 0
    assert len(pack([0, 0], 8, kind=kind)[1]) == 0


@pytest.mark.parametrize("vocab_size", [1 << 16, (1 << 16) + 1, 250_002])
def test_rows_in_less_memory_hold_the_same_ids(vocab_size):
    _, rows = pack([30, 5], seq_len=8)
    largest = np.where(rows.input_ids >= 100, vocab_size - 1, rows.input_ids)
    rows = dataclasses.replace(rows, input_ids=largest.astype(np.int32))
    narrowed = rows.narrowed(vocab_size)
    np.testing.assert_array_equal(narrowed.input_ids, rows.input_ids)
    assert narrowed.input_ids.itemsize == (2 if vocab_size == 1 << 16 else 4)
    both = packing.concatenate([narrowed, narrowed], 8)
    assert both.input_ids.dtype == narrowed.input_ids.dtype
