"""Heads of requests and responses."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.api_message import ApiMessage
from kio.index import load_request_schema
from kio.schema.index import api_key_map, schema_name_map

import mqcore.wire.frames as frames
from mqcore.wire.frames import (
    FLEXIBLE_FROM,
    NEVER,
    BadFrame,
    RequestHead,
    is_flexible,
    read_head,
    read_uvarint,
    response_head,
    skip_tags,
)

METADATA, API_VERSIONS, UNKNOWN = 3, 18, 999


def head(key: int, version: int, client_id: bytes | None, tags: bytes = b"") -> bytes:
    length = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", key, version, 7, length) + (client_id or b"") + tags


def test_a_v1_head_ends_after_the_client_id() -> None:
    frame = head(METADATA, 8, "käfer".encode()) + b"body"
    assert read_head(frame) == RequestHead(METADATA, 8, 7, "käfer", len(frame) - 4)


def test_a_flexible_head_ends_after_its_tagged_fields() -> None:
    frame = head(METADATA, 9, b"me", b"\x02\x00\x01a\x63\x02bc") + b"body"
    assert read_head(memoryview(frame)) == RequestHead(METADATA, 9, 7, "me", len(frame) - 4)


@pytest.mark.parametrize("client_id", [None, b""])
def test_a_null_client_id_is_an_empty_string(client_id: bytes | None) -> None:
    assert read_head(head(METADATA, 9, client_id, b"\x00")) == RequestHead(METADATA, 9, 7, "", 11)


def test_an_unknown_api_key_has_a_v1_head() -> None:
    assert read_head(head(UNKNOWN, 3, b"x")) == RequestHead(UNKNOWN, 3, 7, "x", 11)


def test_a_future_version_has_a_flexible_head() -> None:
    assert read_head(head(API_VERSIONS, 99, b"x", b"\x00")).body_start == 12


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        head(METADATA, 8, None)[:-1],
        head(METADATA, 8, b"four")[:-1],
        struct.pack(">hhih", METADATA, 8, 7, -2),
        head(METADATA, 8, b"\xff\xfe"),
        head(METADATA, 9, b"x"),  # no tagged fields
        head(METADATA, 9, b"x", b"\x01"),
        head(METADATA, 9, b"x", b"\x01\x00\x05abc"),
        head(METADATA, 9, b"x", b"\x01\x00\xff\xff\xff\xff\x0fabc"),
        head(METADATA, 9, b"x", b"\xff\xff\xff\xff\x0f"),
        head(METADATA, 9, b"x", b"\xff\xff\xff\xff\xff\xff\xff"),
    ],
)
def test_a_malformed_head_is_a_bad_frame(frame: bytes) -> None:
    with pytest.raises(BadFrame):
        read_head(frame)


def test_too_many_tagged_fields_in_a_head_are_a_bad_frame() -> None:
    fits = bytes((frames.TAGS_MAX,)) + b"\x00\x00" * frames.TAGS_MAX
    assert skip_tags(fits, 0) == len(fits)
    with pytest.raises(BadFrame):
        skip_tags(bytes((frames.TAGS_MAX + 1,)) + b"\x00\x00" * (frames.TAGS_MAX + 1), 0)


def test_a_response_head_mirrors_the_request() -> None:
    assert response_head(7, flexible=False) == b"\x00\x00\x00\x07"
    assert response_head(7, flexible=True) == b"\x00\x00\x00\x07\x00"


@pytest.mark.parametrize("key", sorted(set(api_key_map) & set(FLEXIBLE_FROM)))
def test_the_first_flexible_versions_are_those_of_kio(key: int) -> None:
    for version in schema_name_map[api_key_map[key]]:
        assert is_flexible(key, version) == load_request_schema(key, version).__flexible__


def test_the_first_flexible_versions_are_those_of_kafka_python() -> None:
    import kafka.protocol.admin
    import kafka.protocol.consumer
    import kafka.protocol.metadata
    import kafka.protocol.producer
    import kafka.protocol.sasl  # noqa: F401

    classes = [each for each in ApiMessage.__subclasses__() if getattr(each, "_json", None) and each.is_request()]
    assert len(classes) > 40
    for each in classes:
        for version in range(each.max_version + 1):
            assert is_flexible(each.API_KEY, version) == each.flexible_version_q(version), each


def test_an_unknown_key_is_never_flexible() -> None:
    assert not is_flexible(UNKNOWN, NEVER - 1)


@given(st.integers(0, 2**32 - 1))
def test_a_varint_is_decoded_as_its_definition_encodes_it(value: int) -> None:
    encoded, rest = bytearray(), value
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    assert read_uvarint(encoded + b"!", 0) == (value, len(encoded))


@given(st.binary(max_size=60))
def test_random_bytes_are_a_head_or_a_bad_frame(frame: bytes) -> None:
    try:
        assert read_head(frame).body_start <= len(frame)
    except BadFrame:
        pass
