"""The hand-written Fetch codec agrees with the schema codecs and with kio."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_response_schema
from kio.serial import entity_reader, entity_writer

from mqcore.identity import NO_TOPIC_ID
from mqcore.wire.fast_primitives import Piece, size_of
from mqcore.wire.fetch import FETCH, FetchedPartition, decode_fetch, encode_fetch_response
from mqcore.wire.frames import BadFrame
from mqcore.wire.messages import decode_request, decode_response, encode_request, encode_response
from mqcore.wire.reader import ELEMENTS_MAX
from tests.unit.mqcore.wire.message_values import mappings

SERVED = range(4, 19)
ORDERS = UUID("11111111-2222-3333-4444-555555555555")


@dataclass(frozen=True)
class FakeSlice:
    """Bytes that must not be read while a response is encoded."""

    length: int

    def read_part(self, start: int, length: int) -> bytes:
        raise AssertionError("read while the response was encoded")


def joined(pieces: Sequence[Piece]) -> bytes:
    parts = []
    for piece in pieces:
        assert isinstance(piece, (bytes, bytearray, memoryview))
        parts.append(bytes(piece))
    return b"".join(parts)


def named(name: str, topic_id: UUID | None, version: int) -> tuple[str | None, UUID | None]:
    return (None, topic_id or NO_TOPIC_ID) if version >= 13 else (name, None)


@pytest.mark.parametrize("version", SERVED)
def test_a_request_is_decoded_like_the_schema_does(version: int) -> None:
    @settings(max_examples=20, deadline=None, database=None)
    @given(mappings(FETCH, "Request", version))
    def check(mapping: Mapping[str, Any]) -> None:
        body = encode_request(FETCH, version, mapping)
        cold = decode_request(FETCH, version, body)
        hot = decode_fetch(version, memoryview(b"head" + body), 4)
        for name in ("max_wait_ms", "min_bytes", "max_bytes", "isolation_level", "session_id", "session_epoch"):
            assert getattr(hot, name) == getattr(cold, name)
        assert (hot.rack_id, hot.cluster_id) == (cold.rack_id, cold.cluster_id)
        assert hot.replica_id == (cold.replica_state.replica_id if version >= 15 else cold.replica_id)
        assert hot.replica_epoch == cold.replica_state.replica_epoch
        assert len(hot.topics) == len(cold.topics)
        for topic, expected in zip(hot.topics, cold.topics, strict=True):
            assert (topic.name, topic.topic_id) == named(expected.topic, expected.topic_id, version)
            assert topic.partitions == [tuple(each) for each in map(reordered, expected.partitions)]
        assert list(hot.forgotten) == [
            (*named(each.topic, each.topic_id, version), tuple(each.partitions)) for each in cold.forgotten_topics_data
        ]

    check()


def reordered(cold: Any) -> tuple[Any, ...]:
    return (
        cold.partition, cold.current_leader_epoch, cold.fetch_offset, cold.last_fetched_epoch,
        cold.log_start_offset, cold.partition_max_bytes, cold.replica_directory_id, cold.high_watermark,
    )  # fmt: skip


ANSWERS = st.builds(
    FetchedPartition,
    partition=st.integers(0, 100),
    error_code=st.integers(-1, 60),
    high_watermark=st.integers(-1, 2**62),
    last_stable_offset=st.integers(-1, 2**62),
    log_start_offset=st.integers(-1, 2**62),
    records=st.binary(max_size=9) | st.just(bytearray(200)),
    aborted=st.none() | st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2**62)), max_size=2),
    preferred_read_replica=st.integers(-1, 9),
    diverging_epoch=st.none() | st.tuples(st.integers(0, 9), st.integers(0, 2**62)),
    current_leader=st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9)),
)


@pytest.mark.parametrize("version", SERVED)
def test_a_response_is_byte_for_byte_what_the_schema_and_kio_encode(version: int) -> None:
    their_class = load_response_schema(FETCH, version)
    their_read, their_write = entity_reader(their_class), entity_writer(their_class)

    @settings(max_examples=20, deadline=None, database=None)
    @given(st.lists(st.tuples(st.text(max_size=200), st.uuids(), st.lists(ANSWERS, max_size=3)), max_size=3))
    def check(topics: list[tuple[str, UUID, list[FetchedPartition]]]) -> None:
        pieces = encode_fetch_response(version, topics, throttle_time_ms=9, error_code=6, session_id=5)
        encoded = joined(pieces)
        assert size_of(pieces) == len(encoded)
        body: dict[str, Any] = {"responses": [plain(*topic) for topic in topics]}
        body |= {"throttle_time_ms": 9, "error_code": 6, "session_id": 5}
        assert encoded == encode_response(FETCH, version, body)
        again = io.BytesIO()
        their_write(again, their_read(encoded, 0)[0])
        assert again.getvalue() == encoded

    check()


def plain(name: str, topic_id: UUID, partitions: list[FetchedPartition]) -> dict[str, Any]:
    answers = []
    for each in partitions:
        answer = each._asdict()
        answer["partition_index"] = answer.pop("partition")
        aborted, diverging, leader = (answer.pop(key) for key in ("aborted", "diverging_epoch", "current_leader"))
        answer["aborted_transactions"] = (
            None
            if aborted is None
            else [{"producer_id": producer, "first_offset": first} for producer, first in aborted]
        )
        if diverging is not None:
            answer["diverging_epoch"] = {"epoch": diverging[0], "end_offset": diverging[1]}
        if leader is not None:
            answer["current_leader"] = {"leader_id": leader[0], "leader_epoch": leader[1]}
        answers.append(answer)
    return {"topic": name, "topic_id": topic_id, "partitions": answers}


@pytest.mark.parametrize("version", SERVED)
def test_slices_of_records_stay_unread_between_the_encoded_bytes(version: int) -> None:
    first: Piece = FakeSlice(1_000_000)
    second = b"records in memory"
    answers = [FetchedPartition(0, records=first), FetchedPartition(1), FetchedPartition(2, records=second)]
    pieces = encode_fetch_response(version, [("orders", ORDERS, answers)])
    assert pieces[1] is first
    assert pieces[3] is second
    assert size_of(pieces) == size_of(pieces[:1]) + 1_000_000 + size_of(pieces[2:])
    in_memory = [FetchedPartition(0, records=bytes(1_000_000)), *answers[1:]]
    assert size_of(pieces) == len(joined(encode_fetch_response(version, [("orders", ORDERS, in_memory)])))


@pytest.mark.parametrize("version", SERVED)
def test_records_are_never_null_even_with_an_error(version: int) -> None:
    pieces = encode_fetch_response(version, [("orders", ORDERS, [FetchedPartition(0, error_code=3)])])
    answer = decode_response(FETCH, version, joined(pieces)).responses[0].partitions[0]
    assert answer.records == b""
    assert answer.aborted_transactions is None
    assert answer.preferred_read_replica == -1


@pytest.mark.parametrize("version", SERVED)
def test_an_empty_list_of_aborted_transactions_differs_from_null(version: int) -> None:
    pieces = encode_fetch_response(version, [("orders", ORDERS, [FetchedPartition(0, aborted=[])])])
    assert decode_response(FETCH, version, joined(pieces)).responses[0].partitions[0].aborted_transactions == []


@pytest.mark.parametrize("version", [-1, 3, 19])
def test_an_unsupported_version_is_a_bad_frame(version: int) -> None:
    with pytest.raises(BadFrame):
        decode_fetch(version, memoryview(bytes(100)))


@pytest.mark.parametrize("version", SERVED)
def test_a_request_truncated_anywhere_is_a_bad_frame(version: int) -> None:
    topic = {"topic": "orders", "topic_id": ORDERS, "partitions": [{"partition": 1}]}
    forgotten = {"topic": "orders", "topic_id": ORDERS, "partitions": [1, 2]}
    body = {"topics": [topic], "forgotten_topics_data": [forgotten], "rack_id": "a", "cluster_id": "b"}
    frame = memoryview(encode_request(FETCH, version, body))
    decode_fetch(version, frame)
    for end in range(len(frame)):
        with pytest.raises(BadFrame):
            decode_fetch(version, frame[:end])


@pytest.mark.parametrize("version", [4, 9, 17])
def test_partitions_are_limited_over_all_topics(version: int) -> None:
    half = ELEMENTS_MAX // 2 + 1
    topic = {"topic": "orders", "topic_id": ORDERS}
    wanted = {**topic, "partitions": [{}] * half}
    decode_fetch(version, memoryview(encode_request(FETCH, version, {"topics": [wanted]})))
    with pytest.raises(BadFrame, match="too many partitions"):
        decode_fetch(version, memoryview(encode_request(FETCH, version, {"topics": [wanted, wanted]})))
    if version >= 7:
        forgotten = {**topic, "partitions": [0] * half}
        with pytest.raises(BadFrame, match="too many partitions"):
            body = encode_request(FETCH, version, {"forgotten_topics_data": [forgotten, forgotten]})
            decode_fetch(version, memoryview(body))


def test_a_replica_directory_must_be_a_uuid() -> None:
    topic = {"topic_id": ORDERS, "partitions": [{"replica_directory_id": ORDERS}]}
    body = encode_request(FETCH, 17, {"topics": [topic]})
    assert decode_fetch(17, memoryview(body)).topics[0].partitions[0].replica_directory_id == ORDERS
    longer = body.replace(b"\x01\x00\x10" + ORDERS.bytes, b"\x01\x00\x11" + ORDERS.bytes + b"?")
    assert len(longer) == len(body) + 1
    with pytest.raises(BadFrame, match="not a UUID"):
        decode_fetch(17, memoryview(longer))


@pytest.mark.parametrize("version", SERVED)
def test_random_bytes_are_a_request_or_a_bad_frame(version: int) -> None:
    @settings(max_examples=60, deadline=None, database=None)
    @given(mappings(FETCH, "Request", version), st.data())
    def check(mapping: Mapping[str, Any], data: st.DataObject) -> None:
        body = bytearray(encode_request(FETCH, version, mapping))
        position = data.draw(st.integers(0, len(body)))
        body[position : position + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=6))
        try:
            decode_fetch(version, memoryview(body))
        except BadFrame:
            pass

    check()
