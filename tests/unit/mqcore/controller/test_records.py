"""Metadata records: encoding and decoding, the exact bytes of Kafka, and invalid bytes."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqcore.controller.facts import (
    BrokerRegistered,
    ConfigChanged,
    Endpoint,
    LeaderChanged,
    MetadataFact,
    PartitionCreated,
    ProducerIdsReserved,
    ResourceType,
    TopicCreated,
    TopicRemoved,
)
from mqcore.controller.records import decode, encode
from mqcore.wire.frames import BadFrame

int32 = st.integers(0, 2**31 - 1)
int64 = st.integers(0, 2**63 - 1)
ids = st.uuids()
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
brokers = st.lists(int32, max_size=4).map(tuple)
endpoints = st.builds(Endpoint, text, text, st.integers(0, 65535))

facts: st.SearchStrategy[MetadataFact] = st.one_of(
    st.builds(BrokerRegistered, int32, ids, int64, st.lists(endpoints, max_size=3).map(tuple), st.none() | text),
    st.builds(TopicCreated, text, ids),
    st.builds(PartitionCreated, ids, int32, brokers, brokers, int32, int32, int32),
    st.builds(LeaderChanged, ids, int32, st.integers(-1, 9), brokers),
    st.builds(TopicRemoved, ids),
    st.builds(ConfigChanged, st.sampled_from(ResourceType), text, text, st.none() | text),
    st.builds(ProducerIdsReserved, int32, int64, int64),
)


@given(facts)
def test_every_fact_is_encoded_and_decoded_unchanged(fact: MetadataFact) -> None:
    _, value = encode(fact)
    assert decode(value) == fact


@given(facts, st.data())
def test_a_truncated_record_is_rejected(fact: MetadataFact, data: st.DataObject) -> None:
    _, value = encode(fact)
    cut = data.draw(st.integers(0, len(value) - 2))  # the last byte may be an empty list of tags
    with pytest.raises(BadFrame):
        decode(value[:cut])


@given(st.binary(max_size=60))
def test_arbitrary_bytes_raise_nothing_but_bad_frame(value: bytes) -> None:
    try:
        decode(value)
    except BadFrame:
        pass


def test_a_topic_record_has_exactly_the_bytes_of_kafka() -> None:
    topic_id = UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")
    assert encode(TopicCreated("ab", topic_id))[1] == b"\x01\x02\x00" + b"\x03ab" + topic_id.bytes + b"\x00"


@pytest.mark.parametrize("value", [b"", b"\x00\x02\x00", b"\x02\x02\x00", b"\x01\x63\x00", b"\x01\x02\x63"])
def test_an_unknown_frame_type_or_version_is_rejected(value: bytes) -> None:
    with pytest.raises(BadFrame):
        decode(value)
