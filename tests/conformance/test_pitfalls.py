"""What broke other brokers, asked of ours over a raw connection: one test for each pitfall that a single broker has.

The bytes are kio's, so a misreading of the protocol that we made twice, once on each side, is found out.
"""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from seckill.stack.broker import BrokerProcess
from tests.conformance.line import (
    API_VERSIONS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    Line,
    batch,
)
from tests.conformance.peer import IS_KAFKA

pytestmark = pytest.mark.skipif(
    IS_KAFKA,
    reason="Apache Kafka answers some of these only after a moment, and some not at all",
)

LAST_SEQUENCE = 2**31 - 1


@pytest.fixture
def line(broker: BrokerProcess) -> Iterator[Line]:
    with Line(broker.port) as opened:
        yield opened


def create(line: Line, topic: str, partitions: int = 1, **configs: str) -> uuid.UUID:
    wanted = {
        "name": topic,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()],
    }
    (created,) = line.ask(CREATE_TOPICS, 7, topics=[wanted], timeout=10_000).topics
    assert created.error_code is ErrorCode.none, created
    assert created.configs is not None
    return uuid.UUID(bytes=created.topic_id.bytes)


def produced(topic: str, records: bytes, acks: int = -1) -> dict[str, Any]:
    partition = {"index": 0, "records": records}
    return {"acks": acks, "timeout": 10_000, "topic_data": [{"name": topic, "partition_data": [partition]}]}


def produce(line: Line, topic: str, records: bytes) -> Any:
    return line.ask(PRODUCE, 11, **produced(topic, records)).responses[0].partition_responses[0]


def fetched(topic: str, offset: int, **how: Any) -> dict[str, Any]:
    limits = {
        "max_wait": how.get("max_wait", 0),
        "min_bytes": how.get("min_bytes", 1),
        "max_bytes": how.get("max_bytes", 1 << 20),
    }
    partition = {
        "partition": how.get("partition", 0),
        "fetch_offset": offset,
        "current_leader_epoch": -1,
        "last_fetched_epoch": -1,
        "partition_max_bytes": how.get("partition_max_bytes", 1 << 20),
    }
    return {"session_epoch": -1, **limits, "topics": [{"topic": topic, "partitions": [partition]}]}


def fetch(line: Line, topic: str, offset: int, **how: Any) -> Any:
    return line.ask(FETCH, 12, **fetched(topic, offset, **how)).responses[0].partitions[0]


# 1 · the order of answers


def test_answers_leave_in_the_order_of_the_requests_even_behind_a_fetch_that_waits(line: Line, topic: str) -> None:
    create(line, topic)
    waiting = line.send(FETCH, 12, **fetched(topic, 0, max_wait=500))
    behind = [line.send(METADATA, 12, topics=[]), line.send(API_VERSIONS, 3)]
    began = time.monotonic()
    assert [line.receive()[0] for _ in range(3)] == [waiting, *behind]
    assert time.monotonic() - began > 0.3, "the fetch was to wait"


def test_a_produce_without_acks_has_no_answer(line: Line, topic: str) -> None:
    create(line, topic)
    line.send(PRODUCE, 11, **produced(topic, batch(b"x"), acks=0))
    next_one = line.send(METADATA, 12, topics=[])
    assert line.receive()[0] == next_one
    assert fetch(line, topic, 0).high_watermark == 1


# 2 · ApiVersions


def test_an_unknown_version_of_api_versions_is_answered_in_version_0_with_the_table(line: Line) -> None:
    line.send_frame(struct.pack(">hhihB", API_VERSIONS, 99, 7, -1, 0))
    frame = line.receive_frame()
    correlation_id, error, count = struct.unpack_from(">ihi", frame)
    assert (correlation_id, error) == (7, 35)
    assert len(frame) == 10 + 6 * count
    offered = {struct.unpack_from(">hhh", frame, 10 + 6 * i)[0] for i in range(count)}
    assert API_VERSIONS in offered


def test_produce_is_advertised_from_version_0(line: Line) -> None:
    table = {
        entry.api_key: entry
        for entry in line.ask(API_VERSIONS, 3, client_software_name="a", client_software_version="1").api_keys
    }
    assert table[PRODUCE].min_version == 0
    assert table[PRODUCE].max_version >= 11


# 3 · nothing is null where a client iterates


def test_a_fetch_that_fails_has_empty_records_not_null_ones(line: Line, topic: str) -> None:
    create(line, topic)
    beyond = fetch(line, topic, 17)
    assert beyond.error_code is ErrorCode.offset_out_of_range
    assert beyond.records == b""
    unknown = fetch(line, topic, 0, partition=9)
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition
    assert unknown.records == b""


# 4 · what a fetch returns


def test_a_fetch_inside_a_batch_returns_the_whole_batch(line: Line, topic: str) -> None:
    create(line, topic)
    records = batch(*[b"%d" % i for i in range(10)])
    produce(line, topic, records)
    got = fetch(line, topic, 6).records
    assert len(got) == len(records)
    assert struct.unpack_from(">q", got) == (0,)


def test_a_batch_larger_than_every_limit_is_returned_all_the_same(line: Line, topic: str) -> None:
    create(line, topic)
    records = batch(b"x" * 50_000)
    produce(line, topic, records)
    assert len(fetch(line, topic, 0, max_bytes=100, partition_max_bytes=100).records) == len(records)


# 5 · long poll


def test_a_waiting_fetch_is_woken_by_an_append(broker: BrokerProcess, line: Line, topic: str) -> None:
    create(line, topic)
    line.send(FETCH, 12, **fetched(topic, 0, max_wait=15_000))
    with Line(broker.port) as writer:
        produce(writer, topic, batch(b"x"))
    began = time.monotonic()
    assert line.receive()[1].responses[0].partitions[0].records
    assert time.monotonic() - began < 5


def test_a_fetch_waits_until_there_are_as_many_bytes_as_it_wants(broker: BrokerProcess, line: Line, topic: str) -> None:
    create(line, topic)
    line.send(FETCH, 12, **fetched(topic, 0, max_wait=15_000, min_bytes=3000))
    with Line(broker.port) as writer:
        produce(writer, topic, batch(b"x" * 100))
        assert line.is_silent(0.3)
        produce(writer, topic, batch(b"x" * 3000))
    assert len(line.receive()[1].responses[0].partitions[0].records) > 3000


def test_a_fetch_that_has_an_error_does_not_wait(line: Line, topic: str) -> None:
    create(line, topic)
    began = time.monotonic()
    assert fetch(line, topic, 5, max_wait=15_000).error_code is ErrorCode.offset_out_of_range
    assert time.monotonic() - began < 5


# 6 · idempotence


def new_producer(line: Line) -> int:
    answer = line.ask(INIT_PRODUCER_ID, 4, transaction_timeout=60_000, producer_id=-1, producer_epoch=-1)
    assert answer.error_code is ErrorCode.none
    return int(answer.producer_id)


def test_each_of_the_last_five_batches_is_recognised_when_it_comes_again(line: Line, topic: str) -> None:
    create(line, topic)
    producer = new_producer(line)
    sent = [batch(b"a", b"b", producer=(producer, 0, 2 * i)) for i in range(5)]
    assert [produce(line, topic, one).base_offset for one in sent] == [0, 2, 4, 6, 8]
    again = [produce(line, topic, one) for one in sent]
    assert [answer.error_code for answer in again] == [ErrorCode.none] * 5
    assert [answer.base_offset for answer in again] == [0, 2, 4, 6, 8]
    assert fetch(line, topic, 0).high_watermark == 10


def test_a_gap_in_the_sequence_is_refused_and_the_wrap_to_zero_is_none(line: Line, topic: str) -> None:
    create(line, topic)
    producer = new_producer(line)
    assert (
        produce(line, topic, batch(b"a", b"b", producer=(producer, 0, LAST_SEQUENCE - 1))).error_code is ErrorCode.none
    )
    gap = produce(line, topic, batch(b"c", producer=(producer, 0, 1)))
    assert gap.error_code is ErrorCode.out_of_order_sequence_number
    assert produce(line, topic, batch(b"c", producer=(producer, 0, 0))).base_offset == 2


# 9 · addresses, automatic topics, refusals


def test_metadata_and_coordinator_name_the_same_address(broker: BrokerProcess, line: Line, group: str) -> None:
    (node,) = line.ask(METADATA, 12, topics=[]).brokers
    (coordinator,) = line.ask(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[group]).coordinators
    assert coordinator.error_code is ErrorCode.none
    assert (node.host, node.port) == (coordinator.host, coordinator.port) == ("127.0.0.1", broker.port)


def test_the_offsets_topic_is_internal(line: Line, group: str) -> None:
    line.ask(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[group])
    (told,) = line.ask(METADATA, 12, topics=[{"name": "__consumer_offsets"}]).topics
    assert told.is_internal


def test_metadata_makes_a_topic_only_when_the_client_allows_it(line: Line, topic: str) -> None:
    def asked(allowed: bool) -> Any:
        return line.ask(METADATA, 12, topics=[{"name": topic}], allow_auto_topic_creation=allowed).topics[0]

    assert asked(False).error_code is ErrorCode.unknown_topic_or_partition
    for _ in range(50):
        made = asked(True)
        if made.error_code is ErrorCode.none:
            break
    assert made.error_code is ErrorCode.none
    assert asked(False).partitions


def test_every_partition_of_a_new_topic_is_served_at_once(line: Line, topic: str) -> None:
    create(line, topic, partitions=20)
    told = line.ask(METADATA, 12, topics=[{"name": topic}]).topics[0]
    assert [p.error_code for p in told.partitions] == [ErrorCode.none] * 20
    for partition in range(20):
        assert fetch(line, topic, 0, partition=partition).error_code is ErrorCode.none


def test_a_commit_for_a_partition_that_is_not_there_is_refused(line: Line, topic: str, group: str) -> None:
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


def test_partitions_only_grow(line: Line, topic: str) -> None:
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


def test_a_batch_with_a_wrong_checksum_is_refused_and_nothing_of_it_is_kept(line: Line, topic: str) -> None:
    create(line, topic)
    spoilt = bytearray(batch(b"x" * 100))
    spoilt[-1] ^= 1
    assert produce(line, topic, bytes(spoilt)).error_code is ErrorCode.corrupt_message
    assert fetch(line, topic, 0).high_watermark == 0


# 11 · whatever a stranger sends


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
def test_nonsense_closes_its_connection_and_only_that(broker: BrokerProcess, line: Line, bad: bytes) -> None:
    with Line(broker.port) as rude:
        rude.send_bytes(bad)
        assert rude.is_closed()
    assert line.ask(METADATA, 12, topics=[]).brokers


def test_a_promised_length_takes_no_memory(broker: BrokerProcess) -> None:
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
