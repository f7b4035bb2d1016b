"""Which batches are accepted. Each row is one kind of invalid batch, and the error that the client gets."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import pytest

from mqcore.log.topic_config import LogConfig
from mqcore.partitions import validation
from mqcore.partitions.validation import validate_batch
from mqcore.wire.batches import BatchHeader
from mqcore.wire.errors import ErrorCode, Refusal
from mqcore.wire.records import Record, build_batch
from tests.unit.mqcore.log.helpers import poisoned
from tests.unit.mqcore.partitions.helpers import NOW_MS, batch, error_name, with_byte, with_valid_crc

PLAIN = LogConfig()


def _set(form: str, at: int, value: int) -> memoryview:
    data = batch(b"a", b"b")
    struct.pack_into(form, data, at, value)
    return with_valid_crc(data)


@pytest.mark.parametrize("codec", range(5))
def test_a_valid_batch_of_every_codec_is_accepted_without_decompression(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "iterate_records", _never)
    header = validate_batch(batch(b"a", b"b", codec=codec), PLAIN, NOW_MS)
    assert isinstance(header, BatchHeader) and header.records_count == 2 and header.codec == codec


def _never(*_: object) -> None:
    raise AssertionError("the broker decompressed a batch although it must not")


@pytest.mark.parametrize(
    ("error", "make"),
    [
        ("CORRUPT_MESSAGE", lambda: memoryview(b"")),
        ("CORRUPT_MESSAGE", lambda: batch()[:60]),
        ("CORRUPT_MESSAGE", lambda: batch()[:-1]),
        ("CORRUPT_MESSAGE", lambda: with_byte(batch(), 65, 0xFF)),  # a byte of a record
        ("CORRUPT_MESSAGE", lambda: with_byte(batch(), 17, 0)),  # a byte of the CRC
        ("CORRUPT_MESSAGE", lambda: with_byte(batch(), 16, 3)),  # an unknown format
        ("UNSUPPORTED_FOR_MESSAGE_FORMAT", lambda: with_byte(batch(), 16, 0)),
        ("UNSUPPORTED_FOR_MESSAGE_FORMAT", lambda: with_byte(batch(), 16, 1)),
        ("INVALID_RECORD", lambda: memoryview(bytes(batch()) + bytes(batch()))),  # two batches
        ("INVALID_RECORD", lambda: _set(">h", 21, 0x20)),  # control
        ("INVALID_RECORD", lambda: _set(">h", 21, 0x40)),  # delete horizon
        ("INVALID_RECORD", lambda: _set(">i", 57, 0)),  # no records
        ("INVALID_RECORD", lambda: _set(">i", 57, -1)),
        ("INVALID_RECORD", lambda: _set(">i", 57, 3)),  # more than its offsets
        ("INVALID_RECORD", lambda: _set(">i", 23, 2**31 - 1)),  # offsets for two billion records
        ("UNSUPPORTED_COMPRESSION_TYPE", lambda: _set(">h", 21, 5)),
        ("INVALID_TXN_STATE", lambda: _set(">h", 21, 0x10)),
        ("CORRUPT_MESSAGE", lambda: _length(-1)),
        ("CORRUPT_MESSAGE", lambda: _length(48)),
        ("CORRUPT_MESSAGE", lambda: _length(2**31 - 1)),
    ],
)
def test_a_bad_batch_is_refused_with_its_error(error: str, make: Callable[[], memoryview]) -> None:
    assert error_name(validate_batch(make(), PLAIN, NOW_MS)) == error


def _length(length: int) -> memoryview:
    data = batch()
    struct.pack_into(">i", data, 8, length)
    return data


def test_max_message_bytes_limits_the_size_of_the_whole_batch() -> None:
    data = batch(b"x" * 300)
    assert isinstance(validate_batch(data, LogConfig(max_message_bytes=len(data)), NOW_MS), BatchHeader)
    assert error_name(validate_batch(data, LogConfig(max_message_bytes=len(data) - 1), NOW_MS)) == "MESSAGE_TOO_LARGE"


def test_timestamps_too_far_from_now_are_refused_unless_the_broker_sets_them() -> None:
    config = LogConfig(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=500)
    assert isinstance(validate_batch(batch(timestamp=NOW_MS - 1000), config, NOW_MS), BatchHeader)
    assert isinstance(validate_batch(batch(timestamp=NOW_MS + 500), config, NOW_MS), BatchHeader)
    assert error_name(validate_batch(batch(timestamp=NOW_MS - 1001), config, NOW_MS)) == "INVALID_TIMESTAMP"
    assert error_name(validate_batch(batch(timestamp=NOW_MS + 501), config, NOW_MS)) == "INVALID_TIMESTAMP"
    append_time = LogConfig(message_timestamp_before_max_ms=1000, message_timestamp_type="LogAppendTime")
    assert isinstance(validate_batch(batch(timestamp=0), append_time, NOW_MS), BatchHeader)


COMPACTED = LogConfig.from_settings({"cleanup.policy": "compact"})
LEAST, MOST = -(2**63), 2**63 - 1


@pytest.mark.parametrize("field", [27, 35])  # base timestamp, largest timestamp
@pytest.mark.parametrize("timestamp", [-2, LEAST])
def test_a_header_with_a_negative_timestamp_is_refused(field: int, timestamp: int) -> None:
    assert error_name(validate_batch(_set(">q", field, timestamp), PLAIN, NOW_MS)) == "INVALID_TIMESTAMP"


def test_a_batch_without_timestamps_is_accepted() -> None:
    for config in (PLAIN, COMPACTED, LogConfig(message_timestamp_before_max_ms=0, message_timestamp_after_max_ms=0)):
        assert isinstance(validate_batch(batch(b"a", timestamp=-1), config, NOW_MS), BatchHeader)


@pytest.mark.parametrize("base", [0, NOW_MS, MOST])
@pytest.mark.parametrize("timestamp", [-2, LEAST, MOST + 1, 2 * MOST, MOST, NOW_MS + 3_600_001])
def test_a_compacted_topic_checks_the_timestamp_of_every_record(base: int, timestamp: int) -> None:
    data = poisoned([Record(0, NOW_MS, b"a", b"1"), Record(1, timestamp, b"b", b"2")], base)
    outcome = validate_batch(memoryview(data), COMPACTED, NOW_MS)
    assert error_name(outcome) == "INVALID_TIMESTAMP"
    # A topic that is not compacted accepts them unread, so clients read what was sent.
    assert isinstance(
        validate_batch(memoryview(data), replace(PLAIN, message_timestamp_after_max_ms=MOST), NOW_MS), BatchHeader
    )


@pytest.mark.parametrize("config", [PLAIN, COMPACTED, LogConfig(message_timestamp_type="LogAppendTime")])
def test_a_producer_must_not_set_log_append_time(config: LogConfig) -> None:
    assert error_name(validate_batch(_set(">h", 21, 0x08), config, NOW_MS)) == "INVALID_TIMESTAMP"


@pytest.mark.parametrize("codec", range(5))
def test_a_compacted_topic_refuses_records_without_a_key(codec: int) -> None:
    config = LogConfig.from_settings({"cleanup.policy": "compact"})
    assert isinstance(
        validate_batch(batch(b"a", None, codec=codec), config, NOW_MS), BatchHeader
    )  # a tombstone has a key
    assert error_name(validate_batch(batch(b"a", key=None, codec=codec), config, NOW_MS)) == "INVALID_RECORD"


def test_unreadable_records_are_refused_by_a_compacted_topic_only() -> None:
    config = LogConfig.from_settings({"cleanup.policy": "compact"})
    data = batch(b"a" * 100, codec=1)
    data[70:90] = bytes(20)
    assert error_name(validate_batch(with_valid_crc(data), config, NOW_MS)) == "CORRUPT_MESSAGE"
    assert isinstance(validate_batch(data, PLAIN, NOW_MS), BatchHeader)  # other topics do not read the records


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_decompression_bomb_is_refused_by_a_compacted_topic_and_not_decompressed_elsewhere(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = LogConfig.from_settings({"cleanup.policy": "compact"})
    bomb = batch(bytes(12 << 20), codec=codec)
    assert error_name(validate_batch(bomb, config, NOW_MS)) == "CORRUPT_MESSAGE"
    monkeypatch.setattr(validation, "iterate_records", _never)
    large = LogConfig.from_settings({"max.message.bytes": "100000000"})
    assert isinstance(validate_batch(bomb, large, NOW_MS), BatchHeader)


def test_a_small_batch_expands_to_at_most_eight_mebibytes() -> None:
    config = LogConfig.from_settings({"cleanup.policy": "compact", "max.message.bytes": "104857600"})
    fits, bomb = batch(bytes(7 << 20), codec=4), batch(bytes(200 << 20), codec=4)
    assert len(bomb) < 40_000 and isinstance(validate_batch(fits, config, NOW_MS), BatchHeader)
    tracemalloc.start()
    try:
        assert error_name(validate_batch(bomb, config, NOW_MS)) == "CORRUPT_MESSAGE"
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_a_large_batch_may_expand_to_its_own_size() -> None:
    config = LogConfig.from_settings({"cleanup.policy": "compact", "max.message.bytes": "104857600"})
    noise = random.Random(1).randbytes(9 << 20)
    for codec in (0, 4):
        assert isinstance(validate_batch(batch(noise, codec=codec), config, NOW_MS), BatchHeader)


@pytest.mark.parametrize("codec", [0, 1, 4])
def test_a_refusal_lists_exactly_the_records_without_a_key(codec: int) -> None:
    keys = [b"a", None, b"b", None, None]
    data = memoryview(build_batch([Record(at, NOW_MS, key, b"v") for at, key in enumerate(keys)], codec=codec))
    refusal = validate_batch(data, replace(PLAIN, compact=True), NOW_MS)
    assert isinstance(refusal, Refusal) and refusal.error is ErrorCode.INVALID_RECORD
    assert [number for number, _ in refusal.record_errors] == [1, 3, 4]
    assert all(why and "without key" in why for _, why in refusal.record_errors)
    assert "3 record errors in total" in str(refusal.message)


def test_all_records_without_a_key_are_listed_but_only_the_first_are_explained() -> None:
    data = memoryview(build_batch([Record(at, NOW_MS, None, b"v") for at in range(5_000)]))
    refusal = validate_batch(data, replace(PLAIN, compact=True), NOW_MS)
    assert isinstance(refusal, Refusal) and [number for number, _ in refusal.record_errors] == list(range(5_000))
    assert sum(why is not None for _, why in refusal.record_errors) == validation.EXPLAINED_RECORDS_MAX
