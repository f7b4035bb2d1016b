"""A follower's Fetch 17 agrees with the codec of the side that serves it, and with kio."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from kio.index import load_request_schema
from kio.serial import entity_reader

from mqcore.identity import BrokerId
from mqcore.wire.fast_primitives import Piece
from mqcore.wire.fetch import (
    FETCH,
    FetchedPartition,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    decode_fetch,
    encode_fetch_response,
)
from mqcore.wire.frames import BadFrame
from mqcore.wire.replica_fetch import VERSION, FetchLimits, Session, decode_fetch_response, encode_replica_fetch

ORDERS, STOCK = UUID(int=1), UUID(int=2)
TOPICS = [
    FetchTopic(None, ORDERS, [FetchPartition(0, 5, 100, 4, 10, 1 << 20), FetchPartition(7, 6, 0, -1, 0, 1 << 20)]),
    FetchTopic(None, STOCK, [FetchPartition(1, 1, 1 << 40, 1, 3, 5)]),
]
ANSWERS = [
    FetchedPartition(0, 0, 90, 90, 10, b"records"),
    FetchedPartition(3, 0, -1, -1, -1, diverging_epoch=(4, 1 << 40)),
    FetchedPartition(5, 74, current_leader=(2, 9)),
    FetchedPartition(6, 0, 1, 1, 0, b"x" * 300, aborted=[(1, 2), (3, 4)], preferred_read_replica=2),
]


def request() -> bytes:
    limits, session = FetchLimits(500, 1 << 20), Session(8, 3)
    return encode_replica_fetch(BrokerId(3), 77, limits, session, TOPICS, {STOCK: [4, 5]})


def response(answers: list[FetchedPartition]) -> memoryview:
    topics = [(None, ORDERS, answers), (None, STOCK, [])]
    pieces: list[Piece] = encode_fetch_response(VERSION, topics, session_id=8)
    return memoryview(b"".join(bytes(piece) for piece in pieces if isinstance(piece, bytes | bytearray | memoryview)))


def test_the_leader_reads_what_the_follower_has_written() -> None:
    found = decode_fetch(VERSION, memoryview(request()))
    assert (found.replica_id, found.replica_epoch) == (3, 77)
    assert (found.max_wait_ms, found.min_bytes, found.max_bytes) == (500, 1, 1 << 20)
    assert (found.session_id, found.session_epoch, found.isolation_level, found.rack_id) == (8, 3, 0, "")
    assert found.forgotten == [ForgottenTopic(None, STOCK, (4, 5))]
    assert found.topics == TOPICS


def test_kio_reads_what_the_follower_has_written() -> None:
    read: Any = entity_reader(load_request_schema(FETCH, VERSION))
    found, _ = read(request(), 0)
    assert (found.replica_state.replica_id, found.replica_state.replica_epoch) == (3, 77)
    assert [topic.topic_id for topic in found.topics] == [ORDERS, STOCK]
    assert [(topic.topic_id, topic.partitions) for topic in found.forgotten_topics_data] == [(STOCK, (4, 5))]
    assert [partition.fetch_offset for topic in found.topics for partition in topic.partitions] == [100, 0, 1 << 40]


def test_the_follower_reads_what_the_leader_has_written() -> None:
    error_code, session_id, topics = decode_fetch_response(response(ANSWERS))
    assert (error_code, session_id) == (0, 8)
    assert [topic_id for topic_id, _ in topics] == [ORDERS, STOCK]
    expected = [answer._replace(aborted=None, preferred_read_replica=-1) for answer in ANSWERS]
    assert topics[0][1] == expected and topics[1][1] == []


def test_records_are_views_into_the_response() -> None:
    frame = response(ANSWERS[:1])
    records = decode_fetch_response(frame).topics[0][1][0].records
    assert isinstance(records, memoryview) and records.obj is frame.obj


@pytest.mark.parametrize("length", range(1, 120, 7))
def test_a_response_that_is_cut_off_is_a_bad_frame(length: int) -> None:
    frame = response(ANSWERS)
    with pytest.raises(BadFrame):
        decode_fetch_response(frame[: len(frame) - length])
