"""Mistakes that other brokers made, tested over a raw connection: order, ApiVersions, nulls, whole batches, long polls.

kio encodes the requests, so a misreading of the protocol that we made on both sides is found.
"""

from __future__ import annotations

import struct

import pytest
from kio.schema.errors import ErrorCode

from seckill.stack.broker_process import BrokerProcess
from tests.conformance.kio_requests import create, fetch, fetched, produce, produced
from tests.conformance.line import (
    API_VERSIONS,
    FETCH,
    METADATA,
    PRODUCE,
    Line,
    batch,
)
from tests.conformance.peer import IS_KAFKA

LONGER_THAN_THE_TEST_MS = 120_000
"""A fetch that really waited this long would exceed the timeout of the connection and fail the test."""

pytestmark = pytest.mark.skipif(
    IS_KAFKA,
    reason="Apache Kafka answers some of these only after a moment, and some not at all",
)


def test_answers_are_sent_in_the_order_of_the_requests_behind_a_waiting_fetch(
    broker: BrokerProcess, line: Line, topic: str
) -> None:
    create(line, topic)
    waiting = line.send(FETCH, 12, **fetched(topic, 0, max_wait=LONGER_THAN_THE_TEST_MS))
    behind = [line.send(METADATA, 12, topics=[]), line.send(API_VERSIONS, 3)]
    with Line(broker.port) as writer:
        produce(writer, topic, batch(b"x"))  # without it the fetch would not be answered
    assert [line.receive()[0] for _ in range(3)] == [waiting, *behind]


def test_a_produce_with_acks_0_gets_no_response(line: Line, topic: str) -> None:
    create(line, topic)
    line.send(PRODUCE, 11, **produced(topic, batch(b"x"), acks=0))
    next_one = line.send(METADATA, 12, topics=[])
    assert line.receive()[0] == next_one
    assert fetch(line, topic, 0).high_watermark == 1


def test_an_unknown_version_of_api_versions_gets_a_version_0_response_with_the_table(line: Line) -> None:
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


def test_a_failed_fetch_has_empty_records_and_not_null(line: Line, topic: str) -> None:
    create(line, topic)
    beyond = fetch(line, topic, 17)
    assert beyond.error_code is ErrorCode.offset_out_of_range
    assert beyond.records == b""
    unknown = fetch(line, topic, 0, partition=9)
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition
    assert unknown.records == b""


def test_a_fetch_inside_a_batch_returns_the_whole_batch(line: Line, topic: str) -> None:
    create(line, topic)
    records = batch(*[b"%d" % i for i in range(10)])
    produce(line, topic, records)
    got = fetch(line, topic, 6).records
    assert len(got) == len(records)
    assert struct.unpack_from(">q", got) == (0,)


def test_the_first_batch_is_returned_even_if_it_exceeds_every_limit(line: Line, topic: str) -> None:
    create(line, topic)
    records = batch(b"x" * 50_000)
    produce(line, topic, records)
    assert len(fetch(line, topic, 0, max_bytes=100, partition_max_bytes=100).records) == len(records)


def test_an_append_answers_a_waiting_fetch(broker: BrokerProcess, line: Line, topic: str) -> None:
    create(line, topic)
    line.send(FETCH, 12, **fetched(topic, 0, max_wait=LONGER_THAN_THE_TEST_MS))
    with Line(broker.port) as writer:
        produce(writer, topic, batch(b"x"))
    assert line.receive()[1].responses[0].partitions[0].records


def test_a_fetch_waits_for_min_bytes(broker: BrokerProcess, line: Line, topic: str) -> None:
    create(line, topic)
    line.send(FETCH, 12, **fetched(topic, 0, max_wait=LONGER_THAN_THE_TEST_MS, min_bytes=3000))
    with Line(broker.port) as writer:
        produce(writer, topic, batch(b"x" * 100))
        produce(writer, topic, batch(b"x" * 3000))
    records = line.receive()[1].responses[0].partitions[0].records
    assert len(records) > 3000, "answered before min_bytes were available"


def test_a_fetch_with_an_error_does_not_wait(line: Line, topic: str) -> None:
    create(line, topic)
    failed = fetch(line, topic, 5, max_wait=LONGER_THAN_THE_TEST_MS)
    assert failed.error_code is ErrorCode.offset_out_of_range
