"""Machine: how facts change the state of a group. Nothing else changes it; `transitions` lists the phases."""

from __future__ import annotations

from mqcore.groups.commands import Phase
from mqcore.groups.facts import (
    CommittedOffset,
    GenerationAssigned,
    GenerationBegan,
    GroupEmptied,
    GroupFact,
    GroupRemoved,
    Member,
    MemberIdIssued,
    MemberIdWithdrawn,
    MemberJoined,
    MemberRemoved,
    MemberReplaced,
    MemberSynced,
    OffsetCommitted,
    OffsetRemoved,
    RebalanceBegan,
    RebalanceExtended,
    SessionsRefreshed,
)
from mqcore.groups.memory import (
    count_member_bytes,
    issued_id_bytes,
    member_bytes,
    offset_bytes,
)
from mqcore.groups.rules import UNPROVEN_MS_MAX
from mqcore.groups.sessions import from_stored_member, may_expire
from mqcore.groups.state_fields import GroupFields
from mqcore.groups.transitions import TRANSITIONS, PhaseFact
from mqcore.identity import Millis


class GroupState(GroupFields):
    def apply(self, fact: GroupFact) -> None:
        match fact:
            case SessionsRefreshed():
                for member_id in fact.member_ids:
                    self._refresh(member_id, fact.at)
            case OffsetCommitted():
                self._set_offset((fact.topic, fact.partition), fact.committed)
            case OffsetRemoved():
                self._set_offset((fact.topic, fact.partition), None)
            case _:
                self.knows_deadline &= isinstance(fact, MemberIdIssued | MemberJoined | MemberSynced)
                self._apply_to_members(fact)

    def _set_offset(self, place: tuple[str, int], committed: CommittedOffset | None) -> None:
        old = self.offsets.pop(place, None)
        if old is not None:
            self.offsets_bytes -= offset_bytes(place[0], old)
        if committed is not None:
            self.offsets[place] = committed
            self.offsets_bytes += offset_bytes(place[0], committed)
            self.has_had_offsets = True

    def _apply_to_members(self, fact: GroupFact) -> None:
        match fact:
            case MemberIdIssued():
                self._withdraw(fact.member_id)
                self.issued_ids[fact.member_id] = fact.deadline
                self._lower_deadline(fact.deadline)
                self.members_bytes += issued_id_bytes(fact.member_id)
            case MemberIdWithdrawn():
                self._withdraw(fact.member_id)
            case MemberJoined():
                self._join(fact.member, fact.protocol_type)
            case MemberReplaced():
                self._replace(fact)
            case MemberRemoved():
                self._remove(fact.member_id)
            case MemberSynced():
                self._put(self.members[fact.member_id]._replace(sync_ticket=fact.ticket))
                self._expect_sync(self.unsynced - {fact.member_id}, self.sync_deadline)
            case RebalanceExtended():
                self.join_deadline, self.has_grown = fact.deadline, False
            case RebalanceBegan() | GenerationBegan() | GenerationAssigned() | GroupEmptied() | GroupRemoved():
                self._change_phase(fact)
                self.members_bytes = count_member_bytes(self.members.values(), self.issued_ids)

    def _change_phase(self, fact: PhaseFact) -> None:
        before, transition = self.phase, TRANSITIONS[type(fact)]
        assert before in transition.when_running | transition.when_replayed, f"{fact} in phase {before.value}"
        self.phase = transition.target
        self.join_deadline = self.extendable_until = None
        self.has_grown = False
        match fact:
            case RebalanceBegan():
                self.join_deadline, self.extendable_until = fact.deadline, fact.extendable_until
                self._expect_sync(frozenset(), None)
                if (
                    before is Phase.COMPLETING_REBALANCE
                ):  # the old assignment is not valid any more, and there is no new one
                    members = self.members.items()
                    self.members = {name: member._replace(sync_ticket=None, assignment=b"") for name, member in members}
            case GenerationBegan():
                self._begin_generation(fact)
            case GenerationAssigned():
                self._assign(fact)
            case GroupEmptied():
                self._clear_members()
                self.generation, self.protocol_type = fact.generation, fact.protocol_type
                self.since_wall_ms = fact.at_wall_ms
            case GroupRemoved():
                self._clear_members()
                self.issued_ids = {}
                self.offsets, self.offsets_bytes = {}, 0

    def _withdraw(self, member_id: str) -> None:
        if self.issued_ids.pop(member_id, None) is not None:
            self.members_bytes -= issued_id_bytes(member_id)

    def _join(self, member: Member, protocol_type: str) -> None:
        self._withdraw(member.member_id)
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.has_grown = self.has_grown or member.member_id not in self.members
        self._put(member)

    def _replace(self, fact: MemberReplaced) -> None:
        old = self.members.pop(fact.old_member_id)
        self._count(old, -1)
        assert old.instance_id == fact.member.instance_id
        self._put(fact.member)
        if self.leader == fact.old_member_id:
            self.leader = fact.member.member_id
        self._expect_sync(self.unsynced - {fact.old_member_id}, self.sync_deadline)

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self._count(member, -1)
        if member.instance_id is not None:
            del self.instances[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self._expect_sync(self.unsynced - {member_id}, self.sync_deadline)

    def _begin_generation(self, fact: GenerationBegan) -> None:
        self.generation, self.protocol, self.leader = fact.generation, fact.protocol, fact.leader
        joined = frozenset(member.member_id for member in self.joined())
        for member_id in joined:
            member = self.members[member_id]
            session_ms = min(member.session_timeout_ms, UNPROVEN_MS_MAX) if member.is_new else member.session_timeout_ms
            self._put(member._replace(join_ticket=None, is_new=False, session_deadline=Millis(fact.at + session_ms)))
        self._expect_sync(joined, fact.sync_deadline)

    def _assign(self, fact: GenerationAssigned) -> None:
        self.generation, self.protocol_type = fact.generation, fact.protocol_type
        self.protocol, self.leader = fact.protocol, fact.leader
        self.since_wall_ms = fact.at_wall_ms
        present, self.members, self.instances, self.protocol_counts = self.members, {}, {}, {}
        for stored in fact.members:
            self._put(from_stored_member(stored, fact.protocol, present.get(stored.member_id)))

    def _clear_members(self) -> None:
        self.members, self.instances, self.protocol_counts = {}, {}, {}
        self.protocol = self.leader = None
        self._expect_sync(frozenset(), None)

    def _put(self, member: Member) -> None:
        old = self.members.get(member.member_id)
        if old is not None:
            self._count(old, -1)
        self._count(member, 1)
        self.members[member.member_id] = member
        if may_expire(member):
            self._lower_deadline(member.session_deadline)
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id

    def _refresh(self, member_id: str, at: Millis) -> None:
        member = self.members[member_id]
        deadline = Millis(at + member.session_timeout_ms)
        self.members[member_id] = member._replace(session_deadline=deadline)
        self._lower_deadline(deadline)

    def _lower_deadline(self, deadline: Millis | None) -> None:
        if self.knows_deadline and deadline is not None:
            self._deadline = deadline if self._deadline is None else min(self._deadline, deadline)

    def _count(self, member: Member, sign: int) -> None:
        self.members_bytes += sign * member_bytes(member)
        for name in {name for name, _ in member.protocols}:
            count = self.protocol_counts.pop(name, 0) + sign
            if count:
                self.protocol_counts[name] = count

    def _expect_sync(self, unsynced: frozenset[str], deadline: Millis | None) -> None:
        self.unsynced = unsynced
        self.sync_deadline = deadline if unsynced else None
