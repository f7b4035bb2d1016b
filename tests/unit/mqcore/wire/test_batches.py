"""The header of a batch: read, checked and stamped without its records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqcore.wire.batches import (
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BadBatch,
    check_crc,
    read_header,
    read_headers,
    stamp,
    stamp_append_time,
)
from mqcore.wire.compression import LZ4
from mqcore.wire.records import Record, build_batch

NOW = 1_700_000_000_000


def batch_at(offset: int, count: int = 2) -> bytearray:
    return build_batch([Record(offset + index, NOW + index, b"k", b"v" * 50) for index in range(count)])


def test_a_header_gives_the_size_and_the_contents_of_the_batch() -> None:
    batch = batch_at(10, 3)
    header = read_header(b"??" + batch, 2)
    assert (header.size, header.last_offset, header.next_offset, header.records_count) == (len(batch), 12, 13, 3)
    assert (header.base_timestamp, header.max_timestamp) == (NOW, NOW + 2)


def test_the_attributes_of_a_batch_are_decoded() -> None:
    header = read_header(build_batch([Record(0, NOW, None, b"v")], codec=LZ4, attributes=TRANSACTIONAL | CONTROL))
    assert (header.codec, header.is_transactional, header.is_control) == (LZ4, True, True)
    assert not read_header(batch_at(0)).is_transactional


def test_the_crc_detects_every_changed_bit() -> None:
    batch = batch_at(0)
    for position in range(17, len(batch)):
        damaged = bytearray(batch)
        damaged[position] ^= 0x10
        with pytest.raises(BadBatch):
            check_crc(damaged, read_header(damaged))


def test_an_incomplete_batch_and_a_damaged_one_have_different_errors() -> None:
    batch = batch_at(0)
    with pytest.raises(BadBatch, match="incomplete"):
        check_crc(batch[:-1], read_header(batch))


def test_stamping_changes_offset_and_epoch_and_keeps_the_crc() -> None:
    data = batch_at(0) + batch_at(0)
    second = len(data) // 2
    stamp(data, 77, 5, second)
    header = read_header(data, second)
    assert (header.base_offset, header.leader_epoch) == (77, 5)
    check_crc(data, header, second)
    assert read_header(data).base_offset == 0


def test_an_append_time_is_stamped_with_a_new_crc() -> None:
    batch = memoryview(batch_at(0))
    header = stamp_append_time(batch, read_header(batch), NOW + 50)
    assert header == read_header(batch)
    assert (header.attributes & LOG_APPEND_TIME, header.max_timestamp) == (LOG_APPEND_TIME, NOW + 50)
    check_crc(batch, header)


def test_complete_batches_are_listed_without_an_incomplete_one_at_the_end() -> None:
    first, second = batch_at(0), batch_at(2, 5)
    for cut in range(1, len(second)):
        assert [position for position, _ in read_headers(first + second[:-cut])] == [0]
    assert [(position, header.base_offset) for position, header in read_headers(first + second)] == [
        (0, 0),
        (len(first), 2),
    ]


@pytest.mark.parametrize(
    ("position", "value"), [(16, b"\x01"), (16, b"\x03"), (8, b"\x00\x00\x00\x30"), (8, b"\xff\xff\xff\xff")]
)
def test_a_wrong_magic_or_length_is_a_bad_batch(position: int, value: bytes) -> None:
    batch = batch_at(0)
    batch[position : position + len(value)] = value
    with pytest.raises(BadBatch):
        read_header(batch)


@given(st.binary(max_size=2 * HEADER_BYTES))
def test_random_bytes_are_a_header_or_a_bad_batch(data: bytes) -> None:
    try:
        for position, header in read_headers(data):
            assert position + header.size <= len(data)
    except BadBatch:
        pass
