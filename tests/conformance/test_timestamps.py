"""Which timestamps a broker accepts: Apache Kafka 4.3 and ours give the same answers."""

from __future__ import annotations

import struct
import time

import pytest

from mqcore.wire.errors import ErrorCode
from mqcore.wire.records import Record
from seckill.stack.broker_process import BrokerProcess
from tests.conformance.raw import LIST_OFFSETS, Wire
from tests.unit.mqcore.log.helpers import poisoned, with_crc

LEAST, MOST = -(2**63), 2**63 - 1
HOUR_MS = 3_600_000


def batch(timestamp: int, base: int, now_ms: int) -> bytes:
    """Two records, the second with that timestamp, under a header with valid timestamps."""
    found = [Record(0, now_ms, b"a", b"1"), Record(1, timestamp, b"b", b"2")]
    return bytes(poisoned(found, base, now_ms))


def test_a_compacted_topic_refuses_overflowing_timestamps_whatever_the_header_says(
    broker: BrokerProcess, topic: str
) -> None:
    now_ms = int(time.time() * 1000)
    batches = {
        "now": (batch(now_ms, now_ms, now_ms), "NONE"),
        "none": (batch(-1, now_ms, now_ms), "NONE"),
        "the sum leaves 64 bits": (batch(MOST + 5, MOST, now_ms), "INVALID_TIMESTAMP"),
        "the largest": (batch(MOST, now_ms, now_ms), "INVALID_TIMESTAMP"),
        "the least": (batch(LEAST, now_ms, now_ms), "INVALID_TIMESTAMP"),
        "two hours ahead": (batch(now_ms + 2 * HOUR_MS, now_ms, now_ms), "INVALID_TIMESTAMP"),
    }
    with Wire(broker.port) as wire:
        wire.create(topic, cleanup_policy="compact")
        answers = {about: ErrorCode(wire.produce(topic, data).error_code).name for about, (data, _) in batches.items()}
        assert answers == {about: wanted for about, (_, wanted) in batches.items()}
        wanted = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": now_ms}]}]
        answer = wire.ask(LIST_OFFSETS, 5, {"replica_id": -1, "isolation_level": 0, "topics": wanted})
        assert answer.topics[0].partitions[0].offset == 0


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_a_batch_is_stored_with_the_timestamp_type_of_its_topic(broker: BrokerProcess, topic: str, kind: str) -> None:
    """A client that sets the LogAppendTime bit is refused. Kafka clears the bit on a CreateTime topic instead."""
    now_ms = int(time.time() * 1000)
    claimed = bytearray(batch(now_ms, now_ms, now_ms))
    struct.pack_into(">h", claimed, 21, 0x08)
    with Wire(broker.port) as wire:
        wire.create(topic, message_timestamp_type=kind)
        answer = ErrorCode(wire.produce(topic, with_crc(claimed)).error_code).name
        assert answer == "INVALID_TIMESTAMP" or (answer, kind) == ("NONE", "CreateTime")
        assert wire.produce(topic, batch(now_ms, now_ms, now_ms)).error_code == 0
        records = memoryview(wire.fetch(topic).records)
        (attributes,) = struct.unpack_from(">h", records, 21)
        assert bool(attributes & 0x08) is (kind == "LogAppendTime")
