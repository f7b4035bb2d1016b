"""The file that keeps a voter's epoch and vote."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqcore.disk.memory import Crashed, MemoryDisk, When
from mqcore.identity import BrokerId, LeaderEpoch
from mqcore.raft.messages import VoterKey
from mqcore.raft.quorum_file import QUORUM_FILE, BadQuorumFile, QuorumFile, decode_election, encode_election
from mqcore.raft.state import NO_ELECTION, Election

FOLDER = "__cluster_metadata-0"
VOTED = VoterKey(BrokerId(2), UUID("00112233-4455-6677-8899-aabbccddeeff"))
OLD, NEW = Election(LeaderEpoch(4), VOTED), Election(LeaderEpoch(5), VOTED, BrokerId(2))

IDS = st.integers(0, 2**31 - 1).map(BrokerId)
ELECTIONS = st.builds(
    Election,
    st.integers(0, 2**31 - 1).map(LeaderEpoch),
    st.none() | st.builds(VoterKey, IDS, st.uuids()),
    st.none() | IDS,
)


def folder(seed: int = 0) -> MemoryDisk:
    disk = MemoryDisk(seed)
    disk.make_directory(FOLDER)
    disk.sync_directory("")
    return disk


def test_the_file_has_kafkas_fields() -> None:
    assert encode_election(NEW) == (
        b'{"leaderId":2,"leaderEpoch":5,"votedId":2,"votedDirectoryId":"ABEiM0RVZneImaq7zN3u_w","data_version":1}'
    )
    assert encode_election(NO_ELECTION) == (
        b'{"leaderId":-1,"leaderEpoch":0,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )


@given(ELECTIONS)
def test_an_election_is_read_back(election: Election) -> None:
    assert decode_election(encode_election(election)) == election


def test_a_folder_without_the_file_has_never_voted() -> None:
    assert QuorumFile(folder(), FOLDER).read() == NO_ELECTION


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"{}",
        encode_election(NEW)[:-1],
        encode_election(NEW).replace(b'"data_version":1', b'"data_version":0'),
        encode_election(NEW).replace(b'"leaderEpoch":5', b'"leaderEpoch":-5'),
        encode_election(NEW).replace(b'"leaderEpoch":5', b'"leaderEpoch":"5"'),
        encode_election(NEW).replace(b'"votedId":2', b'"votedId":true'),
        encode_election(NEW).replace(b"ABEiM0", b"A"),
    ],
)
def test_a_damaged_or_foreign_file_stops_the_start_and_says_what_to_do(content: bytes) -> None:
    disk = folder()
    disk.replace(f"{FOLDER}/{QUORUM_FILE}", content)
    with pytest.raises(BadQuorumFile, match="adopt the node again"):
        QuorumFile(disk, FOLDER).read()


@pytest.mark.parametrize("when", ["before", "during", "after"])
@pytest.mark.parametrize("kind", ["kill", "power"])
def test_a_crash_at_any_call_leaves_the_old_election_or_the_new(when: When, kind: Literal["kill", "power"]) -> None:
    found = set()
    for nth in range(1, 20):
        for seed in range(8):
            disk = folder(seed)
            QuorumFile(disk, FOLDER).write(OLD)
            disk.crash_at(nth, when)
            try:
                QuorumFile(disk, FOLDER).write(NEW)
                disk.crash(kind)
                assert QuorumFile(disk, FOLDER).read() == NEW, "it was durable when `write` returned"
            except Crashed:
                disk.crash(kind)
            found.add(QuorumFile(disk, FOLDER).read())
    assert found == {OLD, NEW}
