"""Machine: whether a client's batch may enter the log. Checks the header and the CRC without decompressing records.

Only a compacted topic reads the records, up to a limit, because a record without a key could never be compacted.
Timestamps follow Kafka's rules, except that one below -1 is always refused.
"""

from __future__ import annotations

from mqcore.log.topic_config import LogConfig
from mqcore.wire.batches import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BadBatch,
    BatchHeader,
    check_crc,
    read_header,
)
from mqcore.wire.errors import ErrorCode, Refusal
from mqcore.wire.records import TIMESTAMP_MAX, TIMESTAMP_MIN, iterate_records, request_limit

LAST_CODEC = 4  # zstd
EXPANSION_MAX = 10  # decompressed size, as a multiple of max.message.bytes
RECORDS_READ_MAX = 100_000  # reading them blocks the event loop for 0.2 s
NO_TIMESTAMP = -1
EXPLAINED_RECORDS_MAX = 100


def validate_batch(batch: memoryview, config: LogConfig, now_ms: int) -> BatchHeader | Refusal:
    """The header of an acceptable batch, or why it is refused."""
    if len(batch) < HEADER_BYTES:
        return Refusal(ErrorCode.CORRUPT_MESSAGE, "too few bytes for a batch")
    if batch[16] < 2:
        return Refusal(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "message formats before v2 are not supported")
    try:
        header = read_header(batch)
        size = header.size
        if size > len(batch):
            return Refusal(ErrorCode.CORRUPT_MESSAGE, f"batch of {size} bytes is cut off")
        if size > config.max_message_bytes:
            message = f"batch of {size} bytes, max.message.bytes is {config.max_message_bytes}"
            return Refusal(ErrorCode.MESSAGE_TOO_LARGE, message)
        if size < len(batch):
            return Refusal(ErrorCode.INVALID_RECORD, "a request may contain only one batch per partition")
        check_crc(batch, header)
    except BadBatch as bad:
        return Refusal(ErrorCode.CORRUPT_MESSAGE, str(bad))
    if header.records_count <= 0 or header.last_offset_delta != header.records_count - 1:
        message = f"{header.records_count} records, but the last offset delta is {header.last_offset_delta}"
        return Refusal(ErrorCode.INVALID_RECORD, message)
    if header.attributes:  # most batches have none
        refusal = _refuse_attributes(header)
        if refusal is not None:
            return refusal
    if config.message_timestamp_type == "CreateTime":
        base, largest = header.base_timestamp, header.max_timestamp
        if base < NO_TIMESTAMP:
            return _refuse_timestamp(base, now_ms)
        if largest != NO_TIMESTAMP and not _is_acceptable(largest, config, now_ms):
            return _refuse_timestamp(largest, now_ms)
    if config.compact:
        return _validate_records(batch, header, config, now_ms)
    return header


def _is_acceptable(timestamp: int, config: LogConfig, now_ms: int) -> bool:
    age_ms = now_ms - timestamp
    return timestamp >= 0 and -config.message_timestamp_after_max_ms <= age_ms <= config.message_timestamp_before_max_ms


def _refuse_timestamp(timestamp: int, now_ms: int) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_TIMESTAMP, f"timestamp {timestamp} is out of range, the broker's clock is {now_ms}"
    )


def _refuse_attributes(header: BatchHeader) -> Refusal | None:
    if header.attributes & (CONTROL | DELETE_HORIZON):
        return Refusal(ErrorCode.INVALID_RECORD, "clients may not write control batches")
    if header.codec > LAST_CODEC:
        return Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression {header.codec}")
    if header.attributes & LOG_APPEND_TIME:
        return Refusal(ErrorCode.INVALID_TIMESTAMP, "only the broker sets the timestamp type to LogAppendTime")
    if header.is_transactional:
        return Refusal(ErrorCode.INVALID_TXN_STATE, "transactions are not supported")
    return None


def _validate_records(batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> BatchHeader | Refusal:
    if header.records_count > RECORDS_READ_MAX:
        message = f"{header.records_count} records in one batch, a compacted topic accepts at most {RECORDS_READ_MAX}"
        return Refusal(ErrorCode.RECORD_LIST_TOO_LARGE, message)
    try:
        limit = min(EXPANSION_MAX * config.max_message_bytes, request_limit(header))
        records = iterate_records(batch, header, limit_bytes=limit)
        earliest, latest = TIMESTAMP_MIN, TIMESTAMP_MAX
        if config.message_timestamp_type == "CreateTime":
            earliest = max(0, now_ms - config.message_timestamp_before_max_ms)
            latest = now_ms + config.message_timestamp_after_max_ms
        keyless: list[int] = []
        for number, record in enumerate(records):
            if record.key is None:
                keyless.append(number)
            if not earliest <= record.timestamp <= latest and record.timestamp != NO_TIMESTAMP:
                return _refuse_timestamp(record.timestamp, now_ms)
    except BadBatch as bad:
        return Refusal(ErrorCode.CORRUPT_MESSAGE, str(bad))
    return _refuse_keyless(keyless) if keyless else header


def _refuse_keyless(keyless: list[int]) -> Refusal:
    """List every record without a key but explain only the first ones, so that the answer stays small."""
    why = "Compacted topic cannot accept message without key"
    message = f"One or more records have been rejected due to {len(keyless)} record errors in total: {why}"
    errors = [(number, why if at < EXPLAINED_RECORDS_MAX else None) for at, number in enumerate(keyless)]
    return Refusal(ErrorCode.INVALID_RECORD, message, tuple(errors))
