"""The hand-written Produce codec agrees with the schema codecs and with kio."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_response_schema
from kio.serial import entity_reader, entity_writer

from mqcore.identity import NO_TOPIC_ID
from mqcore.wire.frames import BadFrame
from mqcore.wire.messages import decode_request, decode_response, encode_request, encode_response
from mqcore.wire.produce import PRODUCE, ProducedPartition, decode_produce, encode_produce_response
from mqcore.wire.reader import ELEMENTS_MAX
from tests.unit.mqcore.wire.message_values import mappings

SERVED = range(3, 14)
ORDERS = UUID("11111111-2222-3333-4444-555555555555")


def request(version: int, *partitions: Mapping[str, Any]) -> memoryview:
    topic = {"name": "orders", "topic_id": ORDERS, "partition_data": list(partitions)}
    body = {"acks": -1, "timeout_ms": 30_000, "topic_data": [topic]}
    return memoryview(bytearray(b"head" + encode_request(PRODUCE, version, body)))


@pytest.mark.parametrize("version", SERVED)
def test_a_request_is_decoded_like_the_schema_does(version: int) -> None:
    @settings(max_examples=20, deadline=None, database=None)
    @given(mappings(PRODUCE, "Request", version))
    def check(mapping: Mapping[str, Any]) -> None:
        body = encode_request(PRODUCE, version, mapping)
        cold = decode_request(PRODUCE, version, body)
        hot = decode_produce(version, memoryview(body))
        assert (hot.transactional_id, hot.acks, hot.timeout_ms) == (cold.transactional_id, cold.acks, cold.timeout_ms)
        assert len(hot.topics) == len(cold.topic_data)
        for topic, expected in zip(hot.topics, cold.topic_data, strict=True):
            by_id = version >= 13
            assert topic.name == (None if by_id else expected.name)
            assert topic.topic_id == ((expected.topic_id or NO_TOPIC_ID) if by_id else None)
            assert [(each.partition, bytes(each.records)) for each in topic.partitions] == [
                (each.index, each.records or b"") for each in expected.partition_data
            ]

    check()


@pytest.mark.parametrize("version", SERVED)
def test_records_are_a_writable_view_into_the_frame(version: int) -> None:
    frame = request(version, {"index": 2, "records": b"first"}, {"index": 3, "records": b"second"})
    first, second = decode_produce(version, frame, 4).topics[0].partitions
    second.records[:3] = b"SEC"
    assert bytes(frame).count(b"SECond") == 1
    assert bytes(first.records) == b"first"


@pytest.mark.parametrize("version", SERVED)
def test_null_records_are_empty(version: int) -> None:
    frame = request(version, {"index": 2, "records": None})
    assert len(decode_produce(version, frame, 4).topics[0].partitions[0].records) == 0


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_produce_versions_are_decoded_far_enough_to_refuse_each_partition(version: int) -> None:
    body = struct.pack(">hii", 1, 500, 1) + b"\x00\x06orders" + struct.pack(">iii", 1, 7, 4) + b"sets"
    topic = decode_produce(version, memoryview(body)).topics[0]
    assert (topic.name, topic.partitions[0].partition, bytes(topic.partitions[0].records)) == ("orders", 7, b"sets")
    answer = encode_produce_response(version, [("orders", None, [ProducedPartition(7, 35)])])
    expected = struct.pack(">i", 1) + b"\x00\x06orders" + struct.pack(">iihq", 1, 7, 35, -1)
    expected += struct.pack(">q", -1) if version == 2 else b""
    expected += struct.pack(">i", 0) if version >= 1 else b""
    assert answer == expected


ANSWERS = st.builds(
    ProducedPartition,
    partition=st.integers(0, 100),
    error_code=st.integers(-1, 60),
    base_offset=st.integers(-1, 2**62),
    log_append_time_ms=st.integers(-1, 2**31),
    log_start_offset=st.integers(-1, 2**62),
    error_message=st.none() | st.text(max_size=200),
    record_errors=st.lists(st.tuples(st.integers(0, 9), st.none() | st.text(max_size=9)), max_size=2),
)


@pytest.mark.parametrize("version", SERVED)
def test_a_response_is_byte_for_byte_what_the_schema_and_kio_encode(version: int) -> None:
    their_class = load_response_schema(PRODUCE, version)
    their_read, their_write = entity_reader(their_class), entity_writer(their_class)

    @settings(max_examples=20, deadline=None, database=None)
    @given(st.lists(st.tuples(st.text(max_size=200), st.uuids(), st.lists(ANSWERS, max_size=3)), max_size=3))
    def check(topics: list[tuple[str, UUID, list[ProducedPartition]]]) -> None:
        encoded = encode_produce_response(version, topics, throttle_time_ms=9)
        assert encoded == encode_response(PRODUCE, version, {"responses": [plain(*topic) for topic in topics],
                                                             "throttle_time_ms": 9})  # fmt: skip
        again = io.BytesIO()
        their_write(again, their_read(encoded, 0)[0])
        assert again.getvalue() == encoded

    check()


def plain(name: str, topic_id: UUID, partitions: list[ProducedPartition]) -> dict[str, Any]:
    answers = []
    for each in partitions:
        answer = each._asdict()
        answer["index"] = answer.pop("partition")
        answer["record_errors"] = [
            {"batch_index": index, "batch_index_error_message": message} for index, message in each.record_errors
        ]
        answers.append(answer)
    return {"name": name, "topic_id": topic_id, "partition_responses": answers}


def test_a_long_error_message_is_truncated_to_valid_text() -> None:
    for version in (8, 13):
        answer = ProducedPartition(0, 87, error_message="é" * 20_000)
        body = encode_produce_response(version, [("orders", ORDERS, [answer])])
        message = decode_response(PRODUCE, version, body).responses[0].partition_responses[0].error_message
        assert message == "é" * 16_383


@pytest.mark.parametrize("version", [-1, 14])
def test_an_unsupported_version_is_a_bad_frame(version: int) -> None:
    with pytest.raises(BadFrame):
        decode_produce(version, memoryview(bytes(100)))


@pytest.mark.parametrize("version", SERVED)
def test_records_longer_than_the_frame_are_a_bad_frame(version: int) -> None:
    frame = request(version, {"index": 2, "records": b"x" * 300})
    for cut in range(1, 40):
        with pytest.raises(BadFrame):
            decode_produce(version, frame[:-cut], 4)


def test_records_of_negative_length_are_a_bad_frame() -> None:
    frame = request(3, {"index": 2, "records": None})
    assert bytes(frame[-4:]) == b"\xff\xff\xff\xff"
    frame[-1:] = b"\xfe"
    with pytest.raises(BadFrame):
        decode_produce(3, frame, 4)


@pytest.mark.parametrize(("version", "least"), [(3, b"\x00" * 8), (13, b"\x00\x00\x00\x00\x01\x00")])
def test_partitions_are_limited_over_all_topics(version: int, least: bytes) -> None:
    half = ELEMENTS_MAX // 2 + 1
    count = struct.pack(">i", half) if version == 3 else b"\xd2\x86\x03"
    name = b"\x00\x01t" if version == 3 else ORDERS.bytes
    topic = name + count + least * half + (b"" if version == 3 else b"\x00")
    head = b"\xff\xff" + bytes(6) + bytes((0, 0, 0, 2)) if version == 3 else b"\x00" + bytes(6) + b"\x03"
    with pytest.raises(BadFrame, match="too many partitions"):
        decode_produce(version, memoryview(head + topic * 2 + b"\x00"))


@pytest.mark.parametrize("version", range(14))
def test_random_bytes_are_a_request_or_a_bad_frame(version: int) -> None:
    @settings(max_examples=60, deadline=None, database=None)
    @given(mappings(PRODUCE, "Request", max(version, 3)), st.data())
    def check(mapping: Mapping[str, Any], data: st.DataObject) -> None:
        body = bytearray(encode_request(PRODUCE, max(version, 3), mapping))
        if version < 3:
            del body[:2]
        position = data.draw(st.integers(0, len(body)))
        body[position : position + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=6))
        try:
            decode_produce(version, memoryview(body))
        except BadFrame:
            pass

    check()
