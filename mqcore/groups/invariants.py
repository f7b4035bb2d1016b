"""Machine: what must be true of a group between two commands. Tests call it after every step."""

from __future__ import annotations

from collections import Counter

from mqcore.groups.commands import Phase
from mqcore.groups.memory import measured, measured_offsets
from mqcore.groups.settled import next_deadline
from mqcore.groups.state import GroupState


def check(state: GroupState) -> None:
    members = state.members
    assert state.members_bytes == measured(members.values(), state.pending), "the bytes of members are counted right"
    assert state.offsets_bytes == measured_offsets(state.offsets), "the bytes of offsets are counted right"
    assert state.protocol_counts == Counter(
        name for member in members.values() for name in {name for name, _ in member.protocols}
    )
    moments = [*state.pending.values(), state.join_deadline, state.sync_deadline]
    exact, expected = next_deadline(members.values(), moments), state.deadline()
    assert exact is None or (expected is not None and expected <= exact), (
        "time has to decide something, and is not asked"
    )
    assert state.committed or not state.offsets
    assert all(name == member.member_id for name, member in members.items())
    assert state.instances == {
        member.instance_id: name for name, member in members.items() if member.instance_id is not None
    }, "every static member is found by its instance id, and no other"
    assert not (state.pending.keys() & members.keys()), "an id is either expected or taken"
    assert state.unsynced <= members.keys()
    assert (state.sync_deadline is None) == (not state.unsynced)
    assert (state.leader is None) == (not members) and (not members or state.leader in members)
    assert not members or state.common_protocols(), "members of one group understand one another"
    assert all(member.joining is None or member.syncing is None for member in members.values())
    match state.phase:
        case Phase.EMPTY | Phase.DEAD:
            assert not members
            assert state.join_deadline is None
        case Phase.PREPARING_REBALANCE:
            assert state.join_deadline is not None, "nobody waits in JoinGroup for ever"
            assert all(member.syncing is None for member in members.values())
        case Phase.COMPLETING_REBALANCE:
            assert state.protocol in state.common_protocols()
            assert all(member.joining is None and not member.new for member in members.values())
            assert state.leader is not None and members[state.leader].syncing is None, "its sync ends the phase"
            for member in members.values():
                assert member.syncing is None or member.session_deadline is not None
        case Phase.STABLE:
            assert state.protocol in state.common_protocols()
            assert not any(member.waits for member in members.values()), "nobody waits for anything"
    assert state.phase is not Phase.DEAD or not (state.pending or state.offsets)
