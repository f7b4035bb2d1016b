"""Prepared requests: our broker must understand them."""

from __future__ import annotations

from loadtest.benchmarks.broker.jobs.raw import _last_offset, fetch_request, produce_request
from loadtest.benchmarks.broker.jobs.redis import add
from mqcore.wire.fetch import decode_fetch
from mqcore.wire.frames import read_head
from mqcore.wire.produce import decode_produce
from mqcore.wire.records import Record, build_batch


def batch(first: int, count: int) -> bytes:
    return bytes(build_batch([Record(first + index, 0, None, b"v") for index in range(count)]))


def test_the_broker_accepts_a_prepared_produce_request() -> None:
    frame = memoryview(produce_request("t", 3, batch(0, 2), "all"))
    head = read_head(frame[4:])
    request = decode_produce(head.version, frame[4:], head.body_start)
    assert (head.api_key, request.acks, request.topics[0].name) == (0, -1, "t")
    assert request.topics[0].partitions[0].partition == 3
    assert bytes(request.topics[0].partitions[0].records) == batch(0, 2)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4


def test_the_broker_accepts_a_prepared_fetch_request() -> None:
    frame = memoryview(fetch_request("t", 2, 77))
    head = read_head(frame[4:])
    (topic,) = decode_fetch(head.version, frame[4:], head.body_start).topics
    assert (topic.name, topic.partitions[0].partition, topic.partitions[0].fetch_offset) == ("t", 2, 77)


def test_reading_continues_after_the_last_complete_batch() -> None:
    content = bytearray(batch(10, 5) + batch(15, 3))
    assert _last_offset(content, 0, len(content)) == (18, 8)
    assert _last_offset(content, 0, len(content) - 1) == (15, 5)
    assert _last_offset(content, 0, 0) == (0, 0)  # the end of the topic: from the beginning again


def test_an_xadd_command_states_its_sizes() -> None:
    assert add("s", b"1-1", b"abc") == b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$3\r\n1-1\r\n$1\r\nv\r\n$3\r\nabc\r\n"
