"""Mistakes that other brokers made, tested over a raw connection: idempotence, addresses, topics, malformed requests.

kio encodes the requests, so a misreading of the protocol that we made on both sides is found.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from seckill.stack.broker_process import BrokerProcess
from tests.conformance.kio_requests import create, fetch, produce
from tests.conformance.line import (
    CREATE_PARTITIONS,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    Line,
    batch,
)
from tests.conformance.peer import IS_KAFKA

LAST_SEQUENCE = 2**31 - 1

pytestmark = pytest.mark.skipif(
    IS_KAFKA,
    reason="Apache Kafka answers some of these only after a moment, and some not at all",
)


def new_producer(line: Line) -> int:
    answer = line.ask(INIT_PRODUCER_ID, 4, transaction_timeout=60_000, producer_id=-1, producer_epoch=-1)
    assert answer.error_code is ErrorCode.none
    return int(answer.producer_id)


def test_each_of_the_last_five_batches_is_recognized_as_a_duplicate(line: Line, topic: str) -> None:
    create(line, topic)
    producer = new_producer(line)
    sent = [batch(b"a", b"b", producer=(producer, 0, 2 * i)) for i in range(5)]
    assert [produce(line, topic, one).base_offset for one in sent] == [0, 2, 4, 6, 8]
    again = [produce(line, topic, one) for one in sent]
    assert [answer.error_code for answer in again] == [ErrorCode.none] * 5
    assert [answer.base_offset for answer in again] == [0, 2, 4, 6, 8]
    assert fetch(line, topic, 0).high_watermark == 10


def test_a_gap_in_the_sequence_is_refused_but_wrapping_to_zero_is_not(line: Line, topic: str) -> None:
    create(line, topic)
    producer = new_producer(line)
    assert (
        produce(line, topic, batch(b"a", b"b", producer=(producer, 0, LAST_SEQUENCE - 1))).error_code is ErrorCode.none
    )
    gap = produce(line, topic, batch(b"c", producer=(producer, 0, 1)))
    assert gap.error_code is ErrorCode.out_of_order_sequence_number
    assert produce(line, topic, batch(b"c", producer=(producer, 0, 0))).base_offset == 2


def test_metadata_and_coordinator_name_the_same_address(broker: BrokerProcess, line: Line, group: str) -> None:
    (node,) = line.ask(METADATA, 12, topics=[]).brokers
    (coordinator,) = line.ask(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[group]).coordinators
    assert coordinator.error_code is ErrorCode.none
    assert (node.host, node.port) == (coordinator.host, coordinator.port) == ("127.0.0.1", broker.port)


def test_the_offsets_topic_is_internal(line: Line, group: str) -> None:
    line.ask(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[group])
    (told,) = line.ask(METADATA, 12, topics=[{"name": "__consumer_offsets"}]).topics
    assert told.is_internal


def test_metadata_creates_a_topic_only_if_the_client_allows_it(line: Line, topic: str) -> None:
    def asked(allowed: bool) -> Any:
        return line.ask(METADATA, 12, topics=[{"name": topic}], allow_auto_topic_creation=allowed).topics[0]

    assert asked(False).error_code is ErrorCode.unknown_topic_or_partition
    for _ in range(50):
        made = asked(True)
        if made.error_code is ErrorCode.none:
            break
    assert made.error_code is ErrorCode.none
    assert asked(False).partitions


def test_every_partition_of_a_new_topic_is_served_once_the_creation_is_answered(line: Line, topic: str) -> None:
    create(line, topic, partitions=20)
    told = line.ask(METADATA, 12, topics=[{"name": topic}]).topics[0]
    assert [p.error_code for p in told.partitions] == [ErrorCode.none] * 20
    for partition in range(20):
        assert fetch(line, topic, 0, partition=partition).error_code is ErrorCode.none


def test_a_commit_for_a_missing_partition_is_refused(line: Line, topic: str, group: str) -> None:
    create(line, topic)
    line.ask(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[group])
    partitions = [{"partition_index": p, "committed_offset": 5, "committed_metadata": "note"} for p in (0, 7)]
    answer = line.ask(
        OFFSET_COMMIT,
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[{"name": topic, "partitions": partitions}],
    )
    errors = {p.partition_index: p.error_code for p in answer.topics[0].partitions}
    assert errors == {0: ErrorCode.none, 7: ErrorCode.unknown_topic_or_partition}
    wanted = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}
    (kept,) = line.ask(OFFSET_FETCH, 8, groups=[wanted]).groups[0].topics[0].partitions
    assert (kept.committed_offset, kept.metadata) == (5, "note")


def test_the_number_of_partitions_can_only_grow(line: Line, topic: str) -> None:
    create(line, topic, partitions=3)

    def grown(count: int) -> ErrorCode:
        answer = line.ask(CREATE_PARTITIONS, 3, topics=[{"name": topic, "count": count}], timeout=10_000)
        return ErrorCode(answer.results[0].error_code)

    assert [grown(2), grown(3), grown(4)] == [
        ErrorCode.invalid_partitions,
        ErrorCode.invalid_partitions,
        ErrorCode.none,
    ]


def test_the_latest_timestamp_of_an_empty_partition_has_no_offset(line: Line, topic: str) -> None:
    create(line, topic)
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -3}
    answer = line.ask(LIST_OFFSETS, 7, replica_id=-1, topics=[{"name": topic, "partitions": [partition]}])
    assert answer.topics[0].partitions[0].offset == -1


def test_a_batch_with_a_wrong_checksum_is_refused_and_not_stored(line: Line, topic: str) -> None:
    create(line, topic)
    spoilt = bytearray(batch(b"x" * 100))
    spoilt[-1] ^= 1
    assert produce(line, topic, bytes(spoilt)).error_code is ErrorCode.corrupt_message
    assert fetch(line, topic, 0).high_watermark == 0


@pytest.mark.parametrize(
    "bad",
    [
        struct.pack(">i", 0x7FFFFFFF),
        struct.pack(">i", -1),
        struct.pack(">i", 3) + b"abc",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        struct.pack(">ihhih", 10, METADATA, 99, 1, -1),
        struct.pack(">ihhih", 10, 999, 0, 1, -1),
        struct.pack(">ihhihi", 14, METADATA, 1, 1, -1, 0x7FFFFFFF),
        struct.pack(">ihhihi", 14, METADATA, 1, 1, -1, -5),
    ],
    ids=["huge", "negative", "short", "http", "unknown-version", "unknown-api", "huge-array", "negative-array"],
)
def test_a_malformed_request_closes_only_its_connection(broker: BrokerProcess, line: Line, bad: bytes) -> None:
    with Line(broker.port) as rude:
        rude.send_bytes(bad)
        assert rude.is_closed()
    assert line.ask(METADATA, 12, topics=[]).brokers


def test_an_announced_length_takes_no_memory(broker: BrokerProcess) -> None:
    def resident_kb() -> int:
        with open(f"/proc/{broker.pid}/status") as status:
            return next(int(row.split()[1]) for row in status if row.startswith("VmRSS"))

    lines = [Line(broker.port) for _ in range(200)]
    before = resident_kb()
    for one in lines:
        one.send_bytes(struct.pack(">i", 90_000_000) + bytes(10))  # below the limit of one request, never sent
    with Line(broker.port) as polite:
        assert polite.ask(METADATA, 12, topics=[]).brokers
    grown = resident_kb() - before
    for one in lines:
        one.close()
    assert grown < 32 * 1024, f"{grown} KB for requests that never came"
