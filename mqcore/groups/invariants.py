"""Machine: what must be true of a group between two commands. Tests check it after every step."""

from __future__ import annotations

from collections import Counter

from mqcore.groups.commands import Phase
from mqcore.groups.memory import count_member_bytes, count_offset_bytes
from mqcore.groups.sessions import next_deadline
from mqcore.groups.state import GroupState


def check(state: GroupState) -> None:
    members = state.members
    assert state.members_bytes == count_member_bytes(members.values(), state.issued_ids), (
        "the sum of the members' bytes is wrong"
    )
    assert state.offsets_bytes == count_offset_bytes(state.offsets), "the sum of the offsets' bytes is wrong"
    assert state.protocol_counts == Counter(
        name for member in members.values() for name in {name for name, _ in member.protocols}
    )
    deadlines = [*state.issued_ids.values(), state.join_deadline, state.sync_deadline]
    exact, expected = next_deadline(members.values(), deadlines), state.deadline()
    assert exact is None or (expected is not None and expected <= exact), "a deadline passes and no tick is due"
    assert state.has_had_offsets or not state.offsets
    assert all(name == member.member_id for name, member in members.items())
    assert state.instances == {
        member.instance_id: name for name, member in members.items() if member.instance_id is not None
    }, "exactly the static members are found by their instance ids"
    assert not (state.issued_ids.keys() & members.keys()), "an issued id belongs to no member yet"
    assert state.unsynced <= members.keys()
    assert (state.sync_deadline is None) == (not state.unsynced)
    assert (state.leader is None) == (not members) and (not members or state.leader in members)
    assert not members or state.common_protocols(), "all members have a protocol in common"
    assert all(member.join_ticket is None or member.sync_ticket is None for member in members.values())
    match state.phase:
        case Phase.EMPTY | Phase.DEAD:
            assert not members
            assert state.join_deadline is None
        case Phase.PREPARING_REBALANCE:
            assert state.join_deadline is not None, "every wait in JoinGroup has an end"
            assert all(member.sync_ticket is None for member in members.values())
        case Phase.COMPLETING_REBALANCE:
            assert state.protocol in state.common_protocols()
            assert all(member.join_ticket is None and not member.is_new for member in members.values())
            assert state.leader is not None and members[state.leader].sync_ticket is None, (
                "the sync of the leader ends the phase"
            )
            for member in members.values():
                assert member.sync_ticket is None or member.session_deadline is not None
        case Phase.STABLE:
            assert state.protocol in state.common_protocols()
            assert not any(member.is_waiting for member in members.values()), "no member waits in a stable group"
    assert state.phase is not Phase.DEAD or not (state.issued_ids or state.offsets)
