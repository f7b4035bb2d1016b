"""Messages by schema: what handlers receive, what they may return, and what clients may send."""

from __future__ import annotations

import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqcore.wire.frames import TAGS_MAX, BadFrame, is_flexible
from mqcore.wire.messages import NAMES, decode_request, decode_response, encode_request, encode_response
from mqcore.wire.reader import ELEMENTS_MAX
from tests.unit.mqcore.wire.message_values import all_messages, mappings, name_of, schema_of

METADATA, HEARTBEAT, API_VERSIONS, CREATE_TOPICS, DESCRIBE_TOPIC_PARTITIONS = 3, 12, 18, 19, 75
ORDERS = UUID("11111111-2222-3333-4444-555555555555")

TOPIC = {"name": "orders", "topic_id": ORDERS, "partitions": [{"partition_index": 0, "leader_id": 1}]}


def test_fields_that_the_version_of_a_request_lacks_hold_their_defaults() -> None:
    body = encode_request(HEARTBEAT, 0, {"group_id": "g", "generation_id": 5, "member_id": "m"})
    assert decode_request(HEARTBEAT, 0, body) == ("g", 5, "m", None)
    request = decode_request(METADATA, 0, b"\x00\x00\x00\x00")
    assert (request.topics, request.allow_auto_topic_creation) == ([], True)


def test_response_fields_that_the_version_lacks_are_left_out() -> None:
    response = {"throttle_time_ms": 5, "error_code": 27}
    assert encode_response(HEARTBEAT, 0, response) == b"\x00\x1b"
    assert encode_response(HEARTBEAT, 1, response) == b"\x00\x00\x00\x05\x00\x1b"


def test_missing_fields_take_their_defaults_in_nested_values_too() -> None:
    body = encode_response(METADATA, 13, {"topics": [TOPIC]})
    partition = decode_response(METADATA, 13, body).topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, -1)
    assert partition.replica_nodes == []
    assert decode_response(METADATA, 13, body).controller_id == -1


@pytest.mark.parametrize(
    "response",
    [
        {"topic": []},
        {"topics": [{**TOPIC, "nam": "x"}]},
        {"topics": [{**TOPIC, "partitions": [{"partition": 0}]}]},
    ],
)
def test_a_misspelt_field_is_refused_at_any_depth(response: Mapping[str, Any]) -> None:
    with pytest.raises(ValueError, match="unknown fields"):
        encode_response(METADATA, 13, response)


@pytest.mark.parametrize(
    ("response", "field"),
    [
        ({"topics": [{**TOPIC, "name": None}]}, "topics: name"),
        ({"topics": None}, "topics"),
        ({"controller_id": "one"}, "controller_id"),
        ({"controller_id": 2**31}, "controller_id"),
        ({"topics": [{**TOPIC, "topic_id": "x"}]}, "topics: topic_id"),
    ],
)
def test_the_error_for_an_invalid_value_names_its_field(response: Any, field: str) -> None:
    with pytest.raises(ValueError, match=field):
        encode_response(METADATA, 10, response)


def test_tagged_fields_are_encoded_only_when_they_differ_from_their_default() -> None:
    plain = encode_response(API_VERSIONS, 3, {})
    assert encode_response(API_VERSIONS, 3, {"supported_features": [], "finalized_features_epoch": -1}) == plain
    features = {"supported_features": [{"name": "f", "min_version": 0, "max_version": 1}]}
    body = encode_response(API_VERSIONS, 3, features)
    assert decode_response(API_VERSIONS, 3, body).supported_features[0].name == "f"
    assert encode_response(API_VERSIONS, 2, features) == encode_response(API_VERSIONS, 2, {})


def test_a_tagged_field_that_is_longer_than_its_value_is_a_bad_frame() -> None:
    body = encode_response(API_VERSIONS, 3, {"finalized_features_epoch": 5})
    assert body.endswith(b"\x01\x01\x08" + struct.pack(">q", 5))
    assert decode_response(API_VERSIONS, 3, body).finalized_features_epoch == 5
    with pytest.raises(BadFrame):
        decode_response(API_VERSIONS, 3, body.replace(b"\x01\x01\x08", b"\x01\x01\x09") + b"\x00")


def test_unknown_tagged_fields_are_skipped() -> None:
    body = encode_request(HEARTBEAT, 4, {"group_id": "g", "generation_id": 1, "member_id": "m"})
    assert decode_request(HEARTBEAT, 4, body[:-1] + b"\x01\x4d\x03abc") == ("g", 1, "m", None)


def test_too_many_tagged_fields_in_a_message_are_a_bad_frame() -> None:
    plain = encode_response(API_VERSIONS, 3, {})[:-1]
    fits = bytes((TAGS_MAX,)) + b"\x4d\x00" * TAGS_MAX
    assert decode_response(API_VERSIONS, 3, plain + fits).finalized_features_epoch == -1
    with pytest.raises(BadFrame):
        decode_response(API_VERSIONS, 3, plain + bytes((TAGS_MAX + 1,)) + b"\x4d\x00" * (TAGS_MAX + 1))


def test_arrays_in_tagged_fields_count_towards_the_limit_of_elements() -> None:
    many = [{"name": "f"}] * (ELEMENTS_MAX // 2 + 1)
    decode_response(API_VERSIONS, 3, encode_response(API_VERSIONS, 3, {"supported_features": many}))
    body = encode_response(API_VERSIONS, 3, {"supported_features": many, "finalized_features": many})
    with pytest.raises(BadFrame, match="too many"):
        decode_response(API_VERSIONS, 3, body)


def test_an_array_may_be_null_only_in_versions_that_allow_it() -> None:
    null = b"\xff\xff\xff\xff"
    assert decode_request(METADATA, 1, null).topics is None
    with pytest.raises(BadFrame):
        decode_request(METADATA, 0, null)


def test_a_nullable_struct_may_be_null() -> None:
    cursor = {"topic_name": "orders", "partition_index": 3}
    for value in (None, cursor):
        body = encode_response(DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [], "next_cursor": value})
        read = decode_response(DESCRIBE_TOPIC_PARTITIONS, 0, body).next_cursor
        assert read == (None if value is None else ("orders", 3))


def test_bytes_after_a_message_are_ignored() -> None:
    assert decode_request(HEARTBEAT, 0, encode_request(HEARTBEAT, 0, {}) + b"more") == ("", 0, "", None)


@pytest.mark.parametrize(("key", "version"), [(HEARTBEAT, -1), (HEARTBEAT, 5), (CREATE_TOPICS, 1), (999, 0), (-1, 0)])
def test_a_request_version_outside_the_schema_is_a_bad_frame(key: int, version: int) -> None:
    with pytest.raises(BadFrame):
        decode_request(key, version, bytes(100))


def test_a_response_version_outside_the_schema_is_refused() -> None:
    with pytest.raises(ValueError):
        encode_response(HEARTBEAT, 5, {})


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\x00\x0f\xff\xff", b"\xff\xff\xff\xfe"])
def test_a_count_larger_than_the_frame_allocates_nothing(count: bytes) -> None:
    frame = count + bytes(1_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(BadFrame):
            decode_request(METADATA, 1, frame)
        assert tracemalloc.get_traced_memory()[1] < 50_000
    finally:
        tracemalloc.stop()


def test_nested_arrays_cannot_exhaust_memory() -> None:
    """A topic of CreateTopics can take ten bytes of a frame and become objects of several hundred bytes."""
    config = b"\x01\x00\x00"
    topic = b"\x01" + bytes(4) + bytes(2) + b"\x01\x02" + config + b"\x00"
    decode_request(CREATE_TOPICS, 7, b"\x03" + topic * 2 + bytes(6))
    for count, announced, most in ((60_000, b"\xe1\xd4\x03", 50_000_000), (1_000_000, b"\xc1\x84\x3d", 50_000)):
        frame = memoryview(announced + topic * count + bytes(6))
        tracemalloc.start()
        try:
            with pytest.raises(BadFrame, match="too many array elements"):
                decode_request(CREATE_TOPICS, 7, frame)
            assert tracemalloc.get_traced_memory()[1] < most
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("key", NAMES)
def test_the_schemas_agree_with_the_table_of_flexible_versions(key: int) -> None:
    for kind in ("Request", "Response"):
        schema = schema_of(key, kind)
        assert schema.versions == schema_of(key, "Request").versions
        for version in range(schema.versions.first, schema.versions.last + 1):
            assert (version in schema.flexible) == is_flexible(key, version)


def test_importing_messages_does_not_import_kafka_python() -> None:
    script = (
        "import sys, mqcore.wire.messages as m; m.decode_request(3, 1, bytes(4)); assert 'kafka' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)


REQUESTS = [message for message in all_messages() if message[1] == "Request"]


@pytest.mark.parametrize("message", REQUESTS, ids=name_of)
def test_random_bytes_are_a_request_or_a_bad_frame(message: tuple[int, str, int]) -> None:
    key, kind, version = message

    @settings(max_examples=8, deadline=None, database=None)
    @given(mappings(key, kind, version), st.data())
    def check(mapping: Mapping[str, Any], data: st.DataObject) -> None:
        body = bytearray(encode_request(key, version, mapping))
        if body:
            position = data.draw(st.integers(0, len(body) - 1))
            body[position : position + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=6))
        for frame in (body, data.draw(st.binary(max_size=50))):
            try:
                decode_request(key, version, memoryview(frame))
            except BadFrame:
                pass

    check()
