"""Members after a restart of the coordinator, how groups are described, and the cost of heartbeats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mqcore.groups.commands import Describe, Phase, ResumeSessions
from mqcore.groups.facts import Member
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.groups.group_driver import SESSION_MS, Group, subscription

# ── a restart of the coordinator ─────────────────────────────────────────────────────────────────────


def test_members_and_their_generation_survive_a_restart() -> None:
    group = Group()
    leader, follower = group.stable(2)
    group.restart()
    group.submit(ResumeSessions())
    assert group.heartbeat(follower, 2) is ErrorCode.NONE
    assert group.sync(leader).answer.assignment == leader.encode()


def test_the_latest_data_of_members_survives_a_restart() -> None:
    """The journal has two generations; all data of a member comes from the second."""
    group = Group()
    old = (("sticky", b"old"), ("range", b""))
    member = group.join(protocols=old, session_ms=20_000).answer.member_id
    group.sync(member)
    new = (("range", subscription("orders", "payments")),)
    newcomer = group.join(protocols=new)
    group.join(member, protocols=(*new, *old), session_ms=30_000)
    group.sync(newcomer.answer.member_id)
    group.sync(member)
    assert group.state.protocol == "range"
    group.restart()
    restored = group.state.members[member]
    assert (restored.protocols, restored.session_timeout_ms) == (new, 30_000)


def test_after_a_restart_members_have_one_session_timeout_to_return() -> None:
    group = Group()
    group.stable(2)
    group.restart()
    group.submit(ResumeSessions())
    group.advance(SESSION_MS - 1)
    assert len(group.state.members) == 2
    group.advance(1)
    assert group.is_in(Phase.EMPTY)


def test_static_members_are_still_static_after_a_restart() -> None:
    group = Group()
    _, old = group.stable(instances=("till-1", "till-2"))
    group.restart()
    group.submit(ResumeSessions())
    assert group.join(instance="till-2").given
    assert group.is_in(Phase.STABLE)
    assert group.heartbeat(old, instance="till-2") is ErrorCode.FENCED_INSTANCE_ID


def test_a_rebalance_that_a_restart_interrupted_begins_again() -> None:
    group = Group()
    leader, _ = group.stable(2)
    group.rejoin(leader)
    group.restart()
    group.submit(ResumeSessions())
    assert group.is_in(Phase.STABLE)
    assert group.state.generation == 2


# ── describing ───────────────────────────────────────────────────────────────────────────────────────


def test_a_missing_group_is_described_as_dead() -> None:
    assert Group().submit(Describe()).answer.phase is Phase.DEAD


def test_a_stable_group_is_described_with_its_protocol() -> None:
    group = Group()
    ids = group.stable(2)
    description = group.submit(Describe()).answer
    assert (description.phase, description.protocol_type, description.protocol) == (Phase.STABLE, "consumer", "range")
    assert [member.member_id for member in description.members] == ids


def test_during_a_rebalance_a_group_is_described_without_a_protocol() -> None:
    group = Group()
    group.stable()
    group.join()
    assert group.submit(Describe()).answer.protocol == ""


class Watched(dict[str, Member]):
    """A dict of members that counts how often all of them are iterated."""

    rounds = 0

    def values(self) -> Any:
        self.rounds += 1
        return super().values()

    def items(self) -> Any:
        self.rounds += 1
        return super().items()

    def __iter__(self) -> Iterator[str]:
        self.rounds += 1
        return super().__iter__()


def test_a_heartbeat_does_not_work_through_the_other_members() -> None:
    group = Group()
    group.without_checks()
    members = group.stable(20)
    group.state.members = watched = Watched(group.state.members)
    group.heartbeat(members[0])
    watched.rounds = 0
    for member in members * 5:
        group.advance(10)
        assert group.heartbeat(member) is ErrorCode.NONE
    assert watched.rounds == 0


def test_a_silent_member_among_many_active_ones_is_removed_in_time() -> None:
    group = Group()
    silent, *others = group.stable(5)
    for _ in range(9):
        group.advance(SESSION_MS // 10)
        for member in others:
            group.heartbeat(member)
    group.advance(SESSION_MS // 10 - 1)
    assert silent in group.state.members
    group.advance(1)
    assert set(group.state.members) == set(others)
