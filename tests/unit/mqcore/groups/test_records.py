"""The records of `__consumer_offsets`: the exact bytes of Kafka's schemas, and invalid records."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqcore.groups import facts
from mqcore.groups.facts import (
    CommittedOffset,
    GenerationAssigned,
    GroupEmptied,
    GroupRemoved,
    KeptFact,
    OffsetCommitted,
    OffsetRemoved,
    StoredMember,
)
from mqcore.groups.records import BadRecord, decode, encode, partition_of
from mqcore.identity import LeaderEpoch, Millis, Offset
from mqcore.wire.primitives import Writer

COMMITTED = CommittedOffset(Offset(5), LeaderEpoch(2), "ab", Millis(9))
MEMBER = StoredMember("m-1", "till-1", "client", "/10.0.0.1", 10_000, 60_000, b"\x01", b"\x02\x03")
SETTLED = GenerationAssigned(3, "consumer", "range", "m-1", (MEMBER,), Millis(7))


def kept(fact: KeptFact) -> tuple[bytes, bytes | None]:
    pair = encode("g", fact)
    assert pair is not None
    return pair


def hexed(*parts: str) -> bytes:
    return bytes.fromhex("".join(parts))


def test_an_offset_is_written_as_key_1_and_value_3() -> None:
    key, value = kept(OffsetCommitted("t", 4, COMMITTED))
    assert key == hexed("0001", "000167", "000174", "00000004")
    assert value == hexed("0003", "0000000000000005", "00000002", "00026162", "0000000000000009")


def test_an_offset_with_an_expiry_time_is_written_as_value_1() -> None:
    committed = CommittedOffset(Offset(5), LeaderEpoch(2), "ab", Millis(9), Millis(11))
    _, value = kept(OffsetCommitted("t", 4, committed))
    assert value == hexed("0001", "0000000000000005", "00026162", "0000000000000009", "000000000000000b")


def test_a_generation_is_written_as_key_2_and_value_3() -> None:
    key, value = kept(SETTLED)
    assert key == hexed("0002", "000167")
    assert value == hexed(
        "0003", "0008636f6e73756d6572", "00000003", "000572616e6765", "00036d2d31", "0000000000000007", "00000001",
        "00036d2d31", "000674696c6c2d31", "0006636c69656e74", "00092f31302e302e302e31", "0000ea60", "00002710",
        "0000000101", "000000020203",
    )  # fmt: skip


def test_an_empty_group_is_a_generation_without_members() -> None:
    _, value = kept(GroupEmptied(4, "consumer", Millis(7)))
    assert value == hexed("0003", "0008636f6e73756d6572", "00000004", "ffff", "ffff", "0000000000000007", "00000000")


@pytest.mark.parametrize("fact", [OffsetRemoved("t", 4), GroupRemoved()])
def test_removals_are_written_as_tombstones(fact: KeptFact) -> None:
    assert kept(fact)[1] is None


def test_exactly_the_kept_facts_have_a_record() -> None:
    samples: list[KeptFact] = [OffsetCommitted("t", 4, COMMITTED), OffsetRemoved("t", 4), SETTLED, GroupRemoved()]
    samples.append(GroupEmptied(4, "consumer", Millis(7)))
    assert {type(sample) for sample in samples} == set(get_args(KeptFact))
    assert all(encode("g", sample) for sample in samples)
    assert encode("g", facts.MemberRemoved("m")) is None
    assert encode("g", facts.SessionsRefreshed(("m",), Millis(1))) is None


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
MEMBERS = st.builds(
    StoredMember, TEXT, st.none() | TEXT, TEXT, TEXT, st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1),
    st.binary(max_size=50), st.binary(max_size=50),
)  # fmt: skip
MOMENTS = st.integers(0, 2**62).map(Millis)
# An offset that expires has no leader epoch: see the version 1 value.
OFFSETS = st.builds(
    CommittedOffset, st.integers(-1, 2**63 - 1), st.integers(-1, 2**31 - 1), TEXT, MOMENTS, st.none()
) | st.builds(CommittedOffset, st.integers(-1, 2**63 - 1), st.just(-1), TEXT, MOMENTS, MOMENTS)
KEPT = (
    st.builds(OffsetCommitted, TEXT, st.integers(0, 2**31 - 1), OFFSETS)
    | st.builds(OffsetRemoved, TEXT, st.integers(0, 2**31 - 1))
    | st.builds(
        GenerationAssigned,
        st.integers(0, 2**31 - 1),
        TEXT,
        TEXT,
        TEXT,
        st.lists(MEMBERS, min_size=1, max_size=4).map(tuple),
        MOMENTS,
    )
    | st.builds(GroupEmptied, st.integers(0, 2**31 - 1), TEXT, MOMENTS)
    | st.just(GroupRemoved())
)


@given(TEXT, KEPT)
def test_every_written_record_is_read_back(group_id: str, fact: KeptFact) -> None:
    pair = encode(group_id, fact)
    assert pair is not None
    assert decode(*pair) == (group_id, fact)


@given(st.none() | st.binary(max_size=80), st.none() | st.binary(max_size=120))
def test_arbitrary_bytes_are_a_bad_record_or_another_kind_of_record(key: bytes | None, value: bytes | None) -> None:
    try:
        decode(key, value)
    except BadRecord:
        pass


@given(KEPT, st.data())
def test_a_damaged_record_raises_nothing_but_bad_record(fact: KeptFact, data: st.DataObject) -> None:
    key, value = kept(fact)
    damaged = bytearray(key if value is None else value)
    place = data.draw(st.integers(0, len(damaged) - 1))
    damaged[place] ^= data.draw(st.integers(1, 255))
    try:
        decode(bytes(damaged) if value is None else key, None if value is None else bytes(damaged))
    except BadRecord:
        pass


def test_keys_of_newer_kinds_of_groups_are_skipped() -> None:
    assert decode(hexed("0003", "000167"), b"whatever") is None


def test_values_of_unknown_versions_are_bad_records() -> None:
    key = kept(SETTLED)[0]
    for version in ("0005", "ffff"):
        with pytest.raises(BadRecord):
            decode(key, hexed(version) + bytes(100))


def test_every_older_version_of_an_offset_is_read() -> None:
    key = hexed("0000", "000167", "000174", "00000004")
    offset, text, commit, end = "0000000000000005", "00026162", "0000000000000009", "000000000000000b"
    plain = CommittedOffset(Offset(5), metadata="ab", commit_wall_ms=Millis(9))
    values = {
        hexed("0000", offset, text, commit): plain,
        hexed("0001", offset, text, commit, end): CommittedOffset(
            Offset(5), metadata="ab", commit_wall_ms=Millis(9), expire_wall_ms=Millis(11)
        ),
        hexed("0001", offset, text, commit, "ff" * 8): plain,
        hexed("0002", offset, text, commit): plain,
        hexed("0003", offset, "00000002", text, commit): COMMITTED,
        hexed("0004", offset, "00000002", "036162", commit, "00"): COMMITTED,
        hexed("0004", offset, "00000002", "036162", commit, "01", "0010", "11" * 16): COMMITTED,
    }
    for value, expected in values.items():
        assert decode(key, value) == ("g", OffsetCommitted("t", 4, expected))


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_every_version_of_a_generation_is_read(version: int) -> None:
    writer = Writer()
    string = writer.compact_string if version == 4 else writer.string
    nullable = writer.compact_nullable_string if version == 4 else writer.nullable_string
    binary = writer.compact_binary if version == 4 else writer.binary
    writer.int16(version)
    string("consumer")
    writer.int32(3)
    nullable("range")
    nullable("m-1")
    if version >= 2:
        writer.int64(7)
    if version == 4:
        writer.uvarint(2)
    else:
        writer.int32(1)
    string("m-1")
    if version >= 3:
        nullable("till-1")
    string("client")
    string("/10.0.0.1")
    if version >= 1:
        writer.int32(60_000)
    writer.int32(10_000)
    binary(b"\x01")
    binary(b"\x02\x03")
    if version == 4:
        writer.no_tags()
        writer.no_tags()
    record = decode(hexed("0002", "000167"), writer.finish())
    assert record is not None
    settled = record.fact
    assert isinstance(settled, GenerationAssigned)
    member = settled.members[0]
    assert (settled.generation, settled.protocol, settled.leader) == (3, "range", "m-1")
    assert settled.at_wall_ms == (7 if version >= 2 else -1)
    assert member.instance_id == ("till-1" if version >= 3 else None)
    assert member.rebalance_timeout_ms == (60_000 if version >= 1 else 10_000)
    assert (member.subscription, member.assignment) == (b"\x01", b"\x02\x03")


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [
        ("", 0),
        ("a", 47),
        ("shop", 12),
        ("console-consumer-42", 37),
        ("Straße", 22),
        ("😀", 49),
        ("polygenelubricants", 0),
    ],
)
def test_the_partition_of_a_group_is_the_one_that_kafka_chooses(group_id: str, partition: int) -> None:
    """The expected numbers are `Utils.abs(groupId.hashCode()) % 50`, computed by a JVM."""
    assert partition_of(group_id, 50) == partition
