"""What Produce and Fetch share: every size is checked before it is believed, and refused by its own check."""

from __future__ import annotations

import struct

import pytest

from mqcore.identity import NO_TOPIC_ID
from mqcore.wire.frames import MAX_TAGS, BadFrame
from mqcore.wire.hot import (
    MAX_PARTITIONS,
    count_prefix,
    read_count,
    read_string,
    read_tags,
    read_topic,
    topic_prefix,
    uvarint,
)

FORMS = pytest.mark.parametrize("flexible", [False, True], ids=["old", "flexible"])


def view(*parts: bytes) -> memoryview:
    return memoryview(b"".join(parts))


@FORMS
@pytest.mark.parametrize("count", [0, 1, 127, 128, 1000])
def test_a_count_is_read_with_the_position_behind_it(flexible: bool, count: int) -> None:
    prefix = count_prefix(count, flexible)
    assert read_count(view(b"??", prefix, bytes(count * 3)), 2, flexible, 3) == (count, 2 + len(prefix))


@FORMS
def test_a_count_for_which_there_are_not_enough_bytes_is_refused(flexible: bool) -> None:
    with pytest.raises(BadFrame):
        read_count(view(count_prefix(10, flexible), bytes(29)), 0, flexible, 3)


@FORMS
def test_a_count_that_is_too_large_for_one_request_is_refused(flexible: bool) -> None:
    with pytest.raises(BadFrame):
        read_count(view(count_prefix(MAX_PARTITIONS + 1, flexible), bytes(MAX_PARTITIONS + 1)), 0, flexible, 1)


@FORMS
def test_an_array_that_is_null_is_refused(flexible: bool) -> None:
    with pytest.raises(BadFrame):
        read_count(view(count_prefix(-1, flexible), bytes(9)), 0, flexible, 1)


def test_a_string_may_be_null_but_not_less() -> None:
    assert read_string(view(b"\xff\xff"), 0, False) == (None, 2)
    assert read_string(view(b"\x00"), 0, True) == (None, 1)
    with pytest.raises(BadFrame):
        read_string(view(b"\xff\xfe"), 0, False)


@FORMS
@pytest.mark.parametrize("by_id", [False, True], ids=["by name", "by id"])
def test_a_topic_reads_back_as_a_response_names_it(flexible: bool, by_id: bool) -> None:
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


def test_tagged_fields_are_read_by_their_numbers() -> None:
    tags, position = read_tags(view(b"?\x02\x01\x02ab\x05\x00!"), 1)
    assert ({tag: bytes(content) for tag, content in tags.items()}, position) == ({1: b"ab", 5: b""}, 8)


@pytest.mark.parametrize("tags", [b"\x01\x01\x03ab", uvarint(MAX_TAGS + 1) + b"\x00\x00" * (MAX_TAGS + 1)])
def test_tagged_fields_that_do_not_fit_or_are_too_many_are_refused(tags: bytes) -> None:
    with pytest.raises(BadFrame):
        read_tags(view(tags), 0)
