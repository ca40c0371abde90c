"""Fixed-length examples as TFRecord bytes, and the way back, in bulk and without TensorFlow.

An example is a `tf.train.Example` with two int64 lists, `attention_mask` and `input_ids`, both
`seq_len` long. The bytes are those of protobuf's deterministic serialisation (map keys sorted,
lists packed), so that between two rows only the mask, the ids and a few lengths differ: the rest
is a template that depends on the ids' length in bytes alone. Sources of the formats: protobuf's
encoding guide, and tensorflow/core/lib/io/record_writer.h for the frame:

    uint64 length | uint32 masked crc32c(length) | payload | uint32 masked crc32c(payload)

Shapes: N examples, T tokens in each.
"""

from __future__ import annotations

import functools
import itertools
import struct

import google_crc32c
import numpy as np

HEADER_BYTES = 12
FOOTER_BYTES = 4
_MASK_DELTA = 0xA282EAD8
_MAX_VARINT_BYTES = 5
"""Of a non-negative int32."""
_TABLE_SIZE = 1 << 18
"""Varints of integers below this are looked up: no vocabulary is larger."""


class DamagedRecordError(ValueError):
    """The bytes of a shard are not what a writer of TFRecords leaves: cut, or changed."""


def masked_crc(data: bytes) -> int:
    """TFRecord's checksum: a CRC-32C, rotated and shifted."""
    return int(_masked([google_crc32c.value(data)])[0])


def frame(payload: bytes) -> bytes:
    """One record of a TFRecord file."""
    return b"".join((_header(len(payload)), payload, struct.pack("<I", masked_crc(payload))))


def serialize(input_ids_NT: np.ndarray, attention_mask_NT: np.ndarray) -> bytes:
    """Framed records of the examples, end to end.

    Args:
        input_ids_NT: Integers from 0 to 2**31 - 1.
        attention_mask_NT: Zeros and ones, uint8.
    """
    seq_len = input_ids_NT.shape[1]
    packed, ends = _pack_varints(input_ids_NT)
    masks = attention_mask_NT.astype(np.uint8).tobytes()
    beginnings, lists, crcs = [], [], []
    start = 0
    for index, end in enumerate(ends):
        ids = packed[start:end]
        mask = masks[index * seq_len : (index + 1) * seq_len]
        beginning, crc = _beginning(mask, end - start)
        beginnings.append(beginning)
        lists.append(ids)
        crcs.append(google_crc32c.extend(crc, ids))
        start = end
    footers = _masked(crcs).astype("<u4").tobytes()
    ends_of_frames = (footers[i : i + FOOTER_BYTES] for i in range(0, len(footers), FOOTER_BYTES))
    frames = zip(beginnings, lists, ends_of_frames, strict=True)
    return b"".join(itertools.chain.from_iterable(frames))


def scan(data: bytes) -> np.ndarray:
    """Where each payload begins and ends: int64 [N, 2]. Headers are checked, payloads are not.

    Raises:
        DamagedRecordError: The frames do not fit the data.
    """
    lengths_of_headers: dict[bytes, int] = {}
    starts, lengths, position = [], [], 0
    while position < len(data):
        header = data[position : position + HEADER_BYTES]
        length = lengths_of_headers.get(header)
        if length is None:
            length = int.from_bytes(header[:8], "little")
            if len(header) < HEADER_BYTES or header != _header(length):
                raise DamagedRecordError(f"no record's header at byte {position:,}")
            lengths_of_headers[header] = length
        position += HEADER_BYTES
        starts.append(position)
        lengths.append(length)
        position += length + FOOTER_BYTES
    if position > len(data):
        raise DamagedRecordError(f"cut in the record at byte {starts[-1]:,}")
    first = np.array(starts, np.int64)
    return np.stack([first, first + np.array(lengths, np.int64)], axis=1)


def check_payloads(data: bytes, bounds: np.ndarray) -> None:
    """Compares the payloads at `bounds` (int64 [N, 2]) with their checksums.

    Raises:
        DamagedRecordError: A payload is not what was written.
    """
    for start, end in bounds.tolist():
        if data[end : end + FOOTER_BYTES] != struct.pack("<I", masked_crc(data[start:end])):
            raise DamagedRecordError(f"wrong checksum of the record at byte {start:,}")


def parse(data: bytes, bounds: np.ndarray, seq_len: int) -> tuple[np.ndarray, np.ndarray] | None:
    """The examples that `serialize` made, at `bounds`: int32 [N, T] ids and uint8 [N, T] mask.

    Returns None if any was written in another form of the same message: those are for a
    protobuf parser.
    """
    starts, lengths = bounds[:, 0], bounds[:, 1] - bounds[:, 0]
    input_ids = np.empty((len(bounds), seq_len), np.int32)
    attention_mask = np.empty((len(bounds), seq_len), np.uint8)
    octets = np.frombuffer(data, np.uint8)
    for length in np.unique(lengths).tolist():  # rows of one length have one layout
        chosen = np.flatnonzero(lengths == length)
        windows = np.lib.stride_tricks.sliding_window_view(octets, length)
        parsed = _parse_alike(windows[starts[chosen]], seq_len)
        if parsed is None:
            return None
        input_ids[chosen], attention_mask[chosen] = parsed
    return input_ids, attention_mask


def _parse_alike(payloads: np.ndarray, seq_len: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Examples whose payloads are of one length: uint8 [N, length]."""
    template = _template_of(payloads.shape[1], seq_len)
    if template is None:
        return None
    before, between = (np.frombuffer(part, np.uint8) for part in template)
    mask_end = len(before) + seq_len
    ids_start = mask_end + len(between)
    masks = payloads[:, len(before) : mask_end]
    ids = _unpack_varints(np.ascontiguousarray(payloads[:, ids_start:]), seq_len)
    is_ours = (
        ids is not None
        and (payloads[:, : len(before)] == before).all()
        and (payloads[:, mask_end:ids_start] == between).all()
        and masks.max(initial=0) <= 1
    )
    return (ids, masks) if ids is not None and is_ours else None


def _pack_varints(values_NT: np.ndarray) -> tuple[bytes, list[int]]:
    """Every value as a protobuf varint, row after row, and where each row ends in the bytes."""
    largest = int(values_NT.max(initial=0))
    if largest < _TABLE_SIZE:
        octets = _varint_table(largest.bit_length()).take(values_NT).view(np.uint8)
        used = octets != 0  # no varint has a byte of zero, but that of zero itself
        used.reshape(-1)[4 * np.flatnonzero(values_NT == 0)] = True
    else:
        octets, used = (a.reshape(len(values_NT), -1) for a in _varints(values_NT))
    ends = np.cumsum(used.view(np.uint8).sum(axis=1, dtype=np.uint32))
    return octets.reshape(-1).take(np.flatnonzero(used)).tobytes(), ends.tolist()


@functools.lru_cache(maxsize=32)
def _varint_table(num_bits: int) -> np.ndarray:
    """The varints of all integers of so many bits, each as one integer of four bytes: uint32."""
    octets, _ = _varints(np.arange(1 << num_bits))
    return np.ascontiguousarray(octets[:, :4]).view(np.uint32).reshape(-1)


def _varints(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of each value's varint (uint8 [..., 5]), and which of them are used (bool)."""
    groups = values[..., None] >> np.arange(0, 7 * _MAX_VARINT_BYTES, 7)
    used = groups > 0
    used[..., 0] = True
    goes_on = groups > 0x7F
    return ((groups & 0x7F) | (goes_on << 7)).astype(np.uint8) * used, used


def _unpack_varints(octets: np.ndarray, seq_len: int) -> np.ndarray | None:
    """The reverse of `_pack_varints` for rows of equally many bytes: int32 [N, T].

    Returns None if a row does not hold `seq_len` numbers, or one is no int32.

    Args:
        octets: uint8 [N, bytes of a row].
        seq_len: Numbers in a row.
    """
    is_last = octets < 0x80
    if not (is_last[:, -1].all() and (is_last.sum(axis=1, dtype=np.int32) == seq_len).all()):
        return None
    is_last = is_last.reshape(-1)
    groups = (octets & 0x7F).astype(np.int32).reshape(-1)
    # Each byte of a number is higher than the one before it. All are treated as if they were last.
    values, follows = groups, np.ones(len(groups), bool)
    for place in range(1, _MAX_VARINT_BYTES + 1):
        follows[place:] &= ~is_last[:-place]
        follows[:place] = False
        if not follows.any():
            # Three times as fast as values[is_last].
            return values.take(np.flatnonzero(is_last)).reshape(-1, seq_len)
        if place == 4 and (groups[follows] > 7).any():
            return None
        with_lower = groups << (7 * place)
        with_lower[1:] |= values[:-1]
        values = values + follows * (with_lower - values)  # np.where, four times as fast
    return None


@functools.lru_cache(maxsize=1 << 14)
def _header(length: int) -> bytes:
    prefix = struct.pack("<Q", length)
    return prefix + struct.pack("<I", masked_crc(prefix))


@functools.lru_cache(maxsize=1 << 14)
def _beginning(mask: bytes, num_id_bytes: int) -> tuple[bytes, int]:
    """A record up to its ids' bytes, and the CRC-32C of its payload so far."""
    before, between = _template(len(mask), num_id_bytes)
    payload = before + mask + between
    return _header(len(payload) + num_id_bytes) + payload, google_crc32c.value(payload)


def _masked(crcs: list[int]) -> np.ndarray:
    """The checksums that stand for these CRCs: uint32."""
    crc = np.array(crcs, np.uint32)
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(_MASK_DELTA)


@functools.lru_cache(maxsize=1 << 14)
def _template(seq_len: int, num_id_bytes: int) -> tuple[bytes, bytes]:
    """What stands before the mask's bytes, and between them and the ids' bytes."""
    mask_key, mask_list = _entry(b"attention_mask", seq_len)
    ids_key, ids_list = _entry(b"input_ids", num_id_bytes)
    size = sum(map(len, (mask_key, mask_list, ids_key, ids_list))) + seq_len + num_id_bytes
    # Example { features = 1 { feature = 1 {…} feature = 1 {…} } }
    return b"\x0a" + varint(size) + mask_key + mask_list, ids_key + ids_list


def _entry(name: bytes, num_bytes: int) -> tuple[bytes, bytes]:
    """A map entry up to the bytes of its packed list: the key's part and the value's part."""
    # Feature { int64_list = 3 { value = 1 [packed] } } as the entry's value = 2; its key = 1.
    packed = b"\x0a" + varint(num_bytes)
    int64_list = b"\x1a" + varint(len(packed) + num_bytes) + packed
    value = b"\x12" + varint(len(int64_list) + num_bytes) + int64_list
    key = b"\x0a" + varint(len(name)) + name
    return b"\x0a" + varint(len(key) + len(value) + num_bytes) + key, value


@functools.lru_cache(maxsize=1 << 14)
def _template_of(payload_bytes: int, seq_len: int) -> tuple[bytes, bytes] | None:
    """The template of a payload of this length, if `serialize` writes any such."""
    guess = payload_bytes - seq_len - sum(map(len, _template(seq_len, seq_len)))
    for num_id_bytes in range(max(seq_len, guess - 16), guess + 1):
        template = _template(seq_len, num_id_bytes)
        if sum(map(len, template)) + seq_len + num_id_bytes == payload_bytes:
            return template
    return None


@functools.lru_cache(maxsize=1 << 12)
def varint(value: int) -> bytes:
    """A non-negative integer in protobuf's form."""
    groups = bytearray()
    while value > 0x7F:
        groups.append((value & 0x7F) | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)
