"""Records inside batches: compatible with kafka-python and aiokafka, and safe against malformed input."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from mqcore.wire.batches import (
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BadBatch,
    check_crc,
    read_header,
    stamp,
    stamp_append_time,
)
from mqcore.wire.compression import GZIP, NAMES, NONE, ZSTD
from mqcore.wire.records import Record, build_batch, iterate_records, read_records

CODECS = pytest.mark.parametrize("codec", NAMES, ids=NAMES.get)
NOW = 1_700_000_000_000

RECORDS = st.lists(
    st.builds(
        Record,
        offset=st.integers(0, 1000),  # replaced, to ascend
        timestamp=st.integers(-1, 2**62),
        key=st.none() | st.binary(max_size=20),
        value=st.none() | st.binary(max_size=300),
        headers=st.lists(st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=9)), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=6,
)


def from_offset(base: int, records: Sequence[Record]) -> list[Record]:
    return [record._replace(offset=base + index) for index, record in enumerate(records)]


def forged(body: bytes, *, count: int = 1, last_delta: int = 0, codec: int = NONE) -> bytes:
    """A batch with a valid CRC around arbitrary content."""
    rest = struct.pack(">hiqqqhii", codec, last_delta, NOW, NOW, -1, -1, -1, count) + body
    return struct.pack(">qiibI", 0, 9 + len(rest), -1, 2, crc32c(rest)) + rest


@CODECS
def test_a_built_batch_is_decoded_unchanged(codec: int) -> None:
    @settings(max_examples=40, deadline=None, database=None)
    @given(RECORDS, st.integers(0, 2**62))
    def check(drawn: list[Record], base: int) -> None:
        records = from_offset(base, drawn)
        batch = build_batch(records, codec=codec, leader_epoch=3, producer_id=7, producer_epoch=1, base_sequence=5)
        header = read_header(batch)
        check_crc(batch, header)
        assert (header.base_offset, header.next_offset, header.codec) == (base, base + len(records), codec)
        assert (header.leader_epoch, header.producer_id, header.producer_epoch, header.base_sequence) == (3, 7, 1, 5)
        assert header.max_timestamp == max(record.timestamp for record in records)
        assert read_records(batch) == records
        assert read_records(memoryview(bytes(batch) + b"next batch"), header) == records

    check()


def theirs(batch: Any) -> list[Record]:
    return [
        Record(each.offset, each.timestamp, each.key, each.value, tuple((name, value) for name, value in each.headers))
        for each in batch
    ]


@CODECS
@pytest.mark.parametrize("builder", [KafkaPythonBuilder, AiokafkaBuilder], ids=["kafka-python", "aiokafka"])
def test_batches_from_other_clients_are_decoded(builder: Callable[..., Any], codec: int) -> None:
    @settings(max_examples=20, deadline=None, database=None)
    @given(RECORDS)
    def check(drawn: list[Record]) -> None:
        records = from_offset(0, drawn)
        build = builder(
            magic=2, compression_type=codec, is_transactional=False, producer_id=9, producer_epoch=2, base_sequence=4,
            batch_size=1 << 20,
        )  # fmt: skip
        for each in records:
            timestamp = max(each.timestamp, 0)
            build.append(each.offset, timestamp=timestamp, key=each.key, value=each.value, headers=list(each.headers))
        batch = bytes(build.build())
        check_crc(batch, read_header(batch))
        assert read_records(batch) == [each._replace(timestamp=max(each.timestamp, 0)) for each in records]

    check()


@CODECS
@pytest.mark.parametrize("reader", [KafkaPythonBatch, AiokafkaBatch], ids=["kafka-python", "aiokafka"])
def test_other_clients_decode_our_batches(reader: Callable[..., Any], codec: int) -> None:
    @settings(max_examples=20, deadline=None, database=None)
    @given(RECORDS)
    def check(drawn: list[Record]) -> None:
        records = from_offset(500, drawn)
        batch = reader(bytes(build_batch(records, codec=codec)))
        assert batch.validate_crc()
        assert theirs(batch) == records

    check()


def test_offset_and_epoch_are_stamped_without_changing_the_crc() -> None:
    batch = build_batch([Record(0, NOW, b"k", b"v"), Record(1, NOW, None, None)])
    stamp(batch, 1000, 7)
    header = read_header(batch)
    check_crc(batch, header)
    assert header.leader_epoch == 7
    assert [record.offset for record in read_records(batch)] == [1000, 1001]


@CODECS
def test_log_append_time_overrides_the_timestamps_of_all_records(codec: int) -> None:
    batch = build_batch([Record(0, NOW, b"k", b"v"), Record(1, NOW + 5, None, None)], codec=codec)
    header = stamp_append_time(batch, read_header(batch), NOW + 100)
    check_crc(batch, header)
    assert [record.timestamp for record in read_records(batch)] == [NOW + 100] * 2
    again = build_batch(read_records(batch), attributes=header.attributes, codec=codec)
    assert read_header(again).attributes == LOG_APPEND_TIME | codec
    assert read_header(again).max_timestamp == NOW + 100


def test_a_compacted_batch_keeps_the_offsets_of_its_records() -> None:
    left = [Record(102, NOW, b"k", b"v"), Record(105, NOW + 9, b"l", None)]
    batch = build_batch(left, base_offset=100, last_offset=109, codec=ZSTD)
    header = read_header(batch)
    assert (header.base_offset, header.next_offset, header.records_count) == (100, 110, 2)
    assert read_records(batch) == left


@CODECS
def test_a_batch_emptied_by_compaction_keeps_the_last_sequence(codec: int) -> None:
    batch = build_batch([], base_offset=100, last_offset=109, codec=codec, producer_id=7, base_sequence=3)
    header = read_header(batch)
    check_crc(batch, header)
    assert (len(batch), header.size, header.last_offset, header.codec) == (HEADER_BYTES, HEADER_BYTES, 109, NONE)
    assert read_records(batch) == []


def test_a_delete_horizon_replaces_the_base_timestamp() -> None:
    records = [Record(4, NOW, b"k", None)]
    batch = build_batch(records, attributes=DELETE_HORIZON, base_timestamp=NOW + 86_400_000)
    assert read_header(batch).base_timestamp == NOW + 86_400_000
    assert read_records(batch) == records


def test_an_offset_outside_the_batch_is_refused() -> None:
    for offset in (99, 110):
        with pytest.raises(ValueError):
            build_batch([Record(offset, NOW, None, None)], base_offset=100, last_offset=109)


GOOD = b"\x0c\x00\x00\x00\x01\x01\x00"  # no key, no value, no headers


def test_the_forged_batches_of_these_tests_are_valid_unless_damaged() -> None:
    assert read_records(forged(GOOD)) == [Record(0, NOW, None, None)]


@pytest.mark.parametrize(
    ("body", "options", "says"),
    [
        pytest.param(GOOD[:-1], {}, "1 records do not fit into", id="cut"),
        pytest.param(GOOD + b"\x00", {}, "1 bytes after", id="bytes after the last record"),
        pytest.param(GOOD, {"count": 2}, "2 records do not fit into", id="a record too few"),
        pytest.param(GOOD, {"count": 0}, "7 bytes after", id="a record too many"),
        pytest.param(GOOD, {"count": -1}, "-1 records do not fit into", id="a negative count"),
        pytest.param(GOOD, {"count": 2**31 - 1}, "2147483647 records do not fit into", id="a huge count"),
        pytest.param(b"\x0b" + GOOD[1:], {}, "record of -6 bytes", id="a negative length"),
        pytest.param(b"\x0a" + GOOD[1:], {}, "its length says", id="a length that is short"),
        pytest.param(b"\xfe\xff\xff\xff\x0f" + GOOD[1:], {}, "record of 2147483647 bytes", id="a huge length"),
        pytest.param(b"\x0c\x00\x00\x02\x01\x01\x00", {}, "offset delta 1", id="an offset behind the last"),
        pytest.param(b"\x0c\x00\x00\x01\x01\x01\x00", {}, "offset delta -1", id="an offset before the first"),
        pytest.param(b"\x0c\x00\x00\x00\x03\x01\x00", {}, "length -2", id="a key of length -2"),
        pytest.param(b"\x0c\x00\x00\x00\x7e\x01\x00", {}, "63 bytes run over", id="a key over the end"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x7e\x00", {}, "63 bytes run over", id="a value over the end"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x7e", {}, "63 headers do not fit into", id="headers over the end"),
        pytest.param(
            b"\x0c\x00\x00\x00\x01\x01\x01", {}, "-1 headers do not fit into", id="a negative number of headers"
        ),
        pytest.param(b"\x10\x00\x00\x00\x01\x01\x02\x01\x00", {}, "has no name", id="a header without a name"),
        pytest.param(b"\x12\x00\x00\x00\x01\x01\x02\x02\xff\x00", {}, "not UTF-8", id="a header name that is not text"),
        pytest.param(b"\x14\x00\x00\x00\x01\x01\x02\x00\xfe\xff\x03", {}, "bytes run over", id="a long header value"),
        pytest.param(b"\x16\x00\x00" + b"\x80" * 5 + b"\x00\x01\x01\x00", {}, "too long", id="a long varint"),
        pytest.param(b"\x14\x00\x00" + b"\x80" * 4 + b"\x10\x01\x01\x00", {}, "too large", id="a large varint"),
        pytest.param(GOOD, {"codec": GZIP}, "gzip", id="not compressed as it says"),
        pytest.param(GOOD, {"codec": 7}, "unknown compression codec 7", id="an unknown codec"),
        pytest.param(b"", {"codec": GZIP}, "records do not fit", id="nothing, compressed"),
    ],
)
def test_the_error_for_a_malformed_batch_says_what_is_wrong(body: bytes, options: dict[str, int], says: str) -> None:
    with pytest.raises(BadBatch, match=says):
        read_records(forged(body, **options))


@pytest.mark.parametrize("length", [b"\x0b", b"\x0e", b"\xfe\xff\xff\xff\x0f"])
def test_the_length_of_a_record_is_checked_before_it_is_read(length: bytes) -> None:
    with pytest.raises(BadBatch, match="record of -?\\d+ bytes"):
        read_records(forged(length + GOOD[1:]))


def test_an_incomplete_batch_is_a_bad_batch() -> None:
    batch = build_batch([Record(0, NOW, b"key", b"value")])
    for end in range(len(batch)):
        with pytest.raises(BadBatch, match="too few bytes" if end < HEADER_BYTES else "incomplete"):
            read_records(batch[:end])


def test_a_batch_that_expands_past_the_limit_is_a_bad_batch() -> None:
    batch = build_batch([Record(0, NOW, None, bytes(100_000))], codec=ZSTD)
    assert len(batch) < 500
    assert len(read_records(batch, limit_bytes=101_000)) == 1
    with pytest.raises(BadBatch):
        read_records(batch, limit_bytes=100_000)


def test_millions_of_records_in_a_small_batch_are_decoded_one_at_a_time() -> None:
    count = 1_000_000
    batch = forged(zlib.compress(GOOD * count, wbits=31), count=count, codec=GZIP)
    assert len(batch) < 20_000
    tracemalloc.start()
    try:
        assert sum(1 for _ in islice(iterate_records(batch), 1000)) == 1000
        assert tracemalloc.get_traced_memory()[1] < 4 * 7 * count
    finally:
        tracemalloc.stop()


@CODECS
def test_random_bytes_are_records_or_a_bad_batch(codec: int) -> None:
    @settings(max_examples=100, deadline=None, database=None)
    @given(RECORDS, st.data())
    def check(drawn: list[Record], data: st.DataObject) -> None:
        batch = build_batch(from_offset(0, drawn), codec=codec)
        position = data.draw(st.integers(0, len(batch) - 1))
        batch[position : position + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
        try:
            read_records(batch, limit_bytes=100_000)
        except BadBatch:
            pass

    check()
