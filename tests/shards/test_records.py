import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from clozeflow.shards import records


def payloads(data: bytes) -> list[bytes]:
    """What is in the frames, checked."""
    bounds = records.scan(data)
    records.check_payloads(data, bounds)
    return [data[start:end] for start, end in bounds.tolist()]


def parse(payload: bytes, seq_len: int):
    return records.parse(payload, np.array([[0, len(payload)]]), seq_len)


SHAPES = st.tuples(st.integers(1, 5), st.integers(8, 40))


def examples(ids, mask) -> list[bytes]:
    """What `tf.train.Example` itself makes of the rows."""

    def ints(row):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=row.tolist()))

    return [
        tf.train.Example(
            features=tf.train.Features(feature={"input_ids": ints(i), "attention_mask": ints(m)})
        ).SerializeToString(deterministic=True)
        for i, m in zip(ids, mask, strict=True)
    ]


def rows(largest=2**31 - 1):
    return SHAPES.flatmap(
        lambda shape: st.tuples(
            hnp.arrays(np.int32, shape, elements=st.integers(0, largest)),
            hnp.arrays(np.uint8, shape, elements=st.integers(0, 1)),
        )
    )


@given(rows())
@settings(max_examples=60)
def test_bytes_are_those_of_tf_train_example(content):
    ids, mask = content
    data = records.serialize(ids, mask)
    assert payloads(data) == examples(ids, mask)


@given(rows())
@settings(max_examples=60)
def test_parse_reverses_serialize(content):
    ids, mask = content
    data = records.serialize(ids, mask)
    parsed = records.parse(data, records.scan(data), ids.shape[1])
    assert parsed is not None
    np.testing.assert_array_equal(parsed[0], ids)
    np.testing.assert_array_equal(parsed[1], mask)


@pytest.mark.parametrize("seq_len", [8, 127, 128, 512, 20_000])
def test_rows_of_any_length(seq_len):
    generator = np.random.default_rng(seq_len)
    ids = generator.integers(0, 50_000, (3, seq_len)).astype(np.int32)
    mask = np.ones_like(ids, np.uint8)
    data = records.serialize(ids, mask)
    assert payloads(data) == examples(ids, mask)
    parsed = records.parse(data, records.scan(data), seq_len)
    np.testing.assert_array_equal(parsed[0], ids)


def test_tensorflow_reads_the_file(tmp_path):
    ids = np.arange(40, dtype=np.int32).reshape(5, 8) * 999
    mask = (ids % 2).astype(np.uint8)
    path = tmp_path / "rows.tfrecord"
    path.write_bytes(records.serialize(ids, mask))
    feature = tf.io.FixedLenFeature([8], tf.int64)
    dataset = tf.data.TFRecordDataset(str(path)).batch(5)
    parsed = tf.io.parse_example(
        next(iter(dataset)), {"input_ids": feature, "attention_mask": feature}
    )
    np.testing.assert_array_equal(parsed["input_ids"], ids)
    np.testing.assert_array_equal(parsed["attention_mask"], mask)


def test_frames_are_those_of_tensorflow(tmp_path):
    contents = [b"", b"x", b"\x00" * 1000]
    path = tmp_path / "tf.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for payload in contents:
            writer.write(payload)
    data = path.read_bytes()
    assert data == b"".join(map(records.frame, contents))
    assert payloads(data) == contents


def test_any_cut_inside_a_record_is_found():
    data = b"".join(map(records.frame, [b"first", b"second"]))
    whole = len(records.frame(b"first"))
    for size in set(range(1, len(data))) - {whole}:
        with pytest.raises(records.DamagedRecordError, match="byte"):
            records.scan(data[:size])


def test_any_changed_byte_is_found():
    data = b"".join(map(records.frame, [b"first", b"second"]))
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 0x20
        with pytest.raises(records.DamagedRecordError):
            payloads(bytes(changed))


def test_other_forms_of_the_message_are_not_guessed_at():
    ids, mask = np.full((1, 8), 300, np.int32), np.ones((1, 8), np.uint8)
    payload = examples(ids, mask)[0]
    assert parse(payload, 8) is not None
    assert parse(payload, 9) is None
    assert parse(payload + b"\x12\x00", 8) is None
    # A value of more bytes than it needs is valid protobuf, and not what we write.
    swapped = tf.train.Example.FromString(payload)
    swapped.features.feature["more"].int64_list.value.append(1)
    assert parse(swapped.SerializeToString(deterministic=True), 8) is None
