"""The primitives of Produce and Fetch check every size before they use it."""

from __future__ import annotations

import struct

import pytest

from mqcore.identity import NO_TOPIC_ID
from mqcore.wire.fast_primitives import (
    PARTITIONS_MAX,
    count_prefix,
    read_count,
    read_string,
    read_tags,
    read_topic,
    topic_prefix,
    uvarint,
)
from mqcore.wire.frames import TAGS_MAX, BadFrame

FORMS = pytest.mark.parametrize("flexible", [False, True], ids=["old", "flexible"])


def view(*parts: bytes) -> memoryview:
    return memoryview(b"".join(parts))


@FORMS
@pytest.mark.parametrize("count", [0, 1, 127, 128, 1000])
def test_a_count_is_returned_with_the_next_position(flexible: bool, count: int) -> None:
    prefix = count_prefix(count, flexible)
    assert read_count(view(b"??", prefix, bytes(count * 3)), 2, flexible, 3) == (count, 2 + len(prefix))


@FORMS
def test_a_count_without_enough_bytes_is_refused(flexible: bool) -> None:
    with pytest.raises(BadFrame):
        read_count(view(count_prefix(10, flexible), bytes(29)), 0, flexible, 3)


@FORMS
def test_a_count_that_is_too_large_for_one_request_is_refused(flexible: bool) -> None:
    with pytest.raises(BadFrame):
        read_count(view(count_prefix(PARTITIONS_MAX + 1, flexible), bytes(PARTITIONS_MAX + 1)), 0, flexible, 1)


@FORMS
def test_a_null_array_is_refused(flexible: bool) -> None:
    with pytest.raises(BadFrame):
        read_count(view(count_prefix(-1, flexible), bytes(9)), 0, flexible, 1)


def test_a_string_length_below_minus_one_is_refused() -> None:
    assert read_string(view(b"\xff\xff"), 0, False) == (None, 2)
    assert read_string(view(b"\x00"), 0, True) == (None, 1)
    with pytest.raises(BadFrame):
        read_string(view(b"\xff\xfe"), 0, False)


@FORMS
@pytest.mark.parametrize("by_id", [False, True], ids=["by name", "by id"])
def test_a_topic_in_a_request_and_in_a_response_have_the_same_encoding(flexible: bool, by_id: bool) -> None:
    name = None if by_id else "ö" * 100
    topic_id = NO_TOPIC_ID if by_id else None
    encoded = topic_prefix(name, topic_id, flexible, by_id)
    assert read_topic(view(encoded), 0, flexible, by_id) == (name, topic_id, len(encoded))
    for end in range(len(encoded)):
        with pytest.raises((BadFrame, IndexError, struct.error)):
            read_topic(view(encoded)[:end], 0, flexible, by_id)


@FORMS
def test_a_topic_without_a_name_is_refused(flexible: bool) -> None:
    with pytest.raises(BadFrame):
        read_topic(view(b"\x00" if flexible else b"\xff\xff"), 0, flexible, False)


def test_tagged_fields_are_returned_by_tag() -> None:
    tags, position = read_tags(view(b"?\x02\x01\x02ab\x05\x00!"), 1)
    assert ({tag: bytes(content) for tag, content in tags.items()}, position) == ({1: b"ab", 5: b""}, 8)


@pytest.mark.parametrize("tags", [b"\x01\x01\x03ab", uvarint(TAGS_MAX + 1) + b"\x00\x00" * (TAGS_MAX + 1)])
def test_oversized_and_too_many_tagged_fields_are_refused(tags: bytes) -> None:
    with pytest.raises(BadFrame):
        read_tags(view(tags), 0)
