"""Metadata records: encoding and decoding, the exact bytes of Kafka, and invalid bytes."""

from __future__ import annotations

from typing import get_args
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqcore.controller.facts import (
    BrokerChanged,
    BrokerContacted,
    BrokerRegistered,
    BrokerUnregistered,
    ConfigChanged,
    Endpoint,
    FeatureLevelSet,
    MetadataFact,
    NoOp,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsReserved,
    ResourceType,
    SecurityProtocol,
    TopicCreated,
    TopicRemoved,
)
from mqcore.controller.records import RECORD_TYPES, decode, encode, encode_if_kept
from mqcore.identity import BrokerId, LeaderEpoch, Millis, Offset
from mqcore.wire.frames import BadFrame
from mqcore.wire.schemas import load_schema

TOPIC = UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")

int32 = st.integers(0, 2**31 - 1)
int64 = st.integers(0, 2**63 - 1)
ids = st.uuids()
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
brokers = st.lists(int32, max_size=4).map(tuple)
endpoints = st.builds(Endpoint, text, text, st.integers(0, 65535), st.sampled_from(SecurityProtocol))
booleans = st.booleans()

facts: st.SearchStrategy[MetadataFact] = st.one_of(
    st.builds(
        BrokerRegistered,
        int32,
        ids,
        int64,
        st.lists(endpoints, max_size=3).map(tuple),
        st.none() | text,
        booleans,
        booleans,
        st.lists(ids, max_size=2).map(tuple),
    ),
    st.builds(BrokerChanged, int32, int64, st.none() | booleans, booleans),
    st.builds(BrokerUnregistered, int32, int64),
    st.builds(TopicCreated, text, ids),
    st.builds(PartitionCreated, ids, int32, brokers, brokers, int32, int32, int32, brokers, brokers),
    st.builds(
        PartitionChanged,
        ids,
        int32,
        st.none() | st.integers(-1, 9),
        st.none() | brokers,
        st.none() | brokers,
        st.none() | brokers,
        st.none() | brokers,
    ),
    st.builds(TopicRemoved, ids),
    st.builds(ConfigChanged, st.sampled_from(ResourceType), text, text, st.none() | text),
    st.builds(ProducerIdsReserved, int32, int64, int64),
    st.builds(FeatureLevelSet, text, st.integers(0, 30)),
    st.just(NoOp()),
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


WRITTEN_BEFORE: list[tuple[str, MetadataFact]] = [
    (
        "01000100000001000000000000000000000000000000050000000000000001020a504c41494e5445585405686572652384000000010272000000",
        BrokerRegistered(BrokerId(1), UUID(int=5), 1, (Endpoint("PLAINTEXT", "here", 9092),), "r"),
    ),
    ("010200076f7264657273000102030405060708090a0b0c0d0e0f00", TopicCreated("orders", TOPIC)),
    (
        "01040002076f726465727309666c7573682e6d73023500",
        ConfigChanged(ResourceType.TOPIC, "orders", "flush.ms", "5"),
    ),
    (
        "01030000000000000102030405060708090a0b0c0d0e0f02000000010200000001010100000001000000000000000000",
        PartitionCreated(TOPIC, 0, (BrokerId(1),), (BrokerId(1),), BrokerId(1), LeaderEpoch(0), 0),
    ),
    (
        "01050000000000000102030405060708090a0b0c0d0e0f0200050200000001010400000001",
        PartitionChanged(TOPIC, 0, BrokerId(1), (BrokerId(1),)),
    ),
    ("010f0000000001000000000000000100000000000003e800", ProducerIdsReserved(BrokerId(1), 1, 1000)),
    ("010900000102030405060708090a0b0c0d0e0f00", TopicRemoved(TOPIC)),
]
"""Records as the first version of mqcore wrote them."""


@pytest.mark.parametrize(("value", "fact"), WRITTEN_BEFORE, ids=lambda each: type(each).__name__)
def test_the_records_of_an_old_data_folder_are_read(value: str, fact: MetadataFact) -> None:
    assert decode(bytes.fromhex(value)) == fact


def test_every_kind_of_fact_has_a_record_and_its_number_is_that_of_its_schema() -> None:
    assert set(RECORD_TYPES) == set(get_args(MetadataFact))
    assert {kind.schema: load_schema(kind.schema).number for kind in RECORD_TYPES.values()} == {
        kind.schema: kind.number for kind in RECORD_TYPES.values()
    }


def test_a_fact_about_sessions_is_not_kept() -> None:
    assert encode_if_kept(BrokerContacted(BrokerId(1), Millis(5), Offset(3))) is None
    assert encode_if_kept(NoOp()) == encode(NoOp()) == (None, b"\x01\x14\x00\x00")


def test_a_topic_record_has_exactly_the_bytes_of_kafka() -> None:
    topic_id = UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")
    assert encode(TopicCreated("ab", topic_id))[1] == b"\x01\x02\x00" + b"\x03ab" + topic_id.bytes + b"\x00"


@pytest.mark.parametrize("value", [b"", b"\x00\x02\x00", b"\x02\x02\x00", b"\x01\x63\x00", b"\x01\x02\x63"])
def test_an_unknown_frame_type_or_version_is_rejected(value: bytes) -> None:
    with pytest.raises(BadFrame):
        decode(value)
