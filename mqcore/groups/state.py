"""Machine: what a group is at one moment. Facts are the only way to change it.

    Empty ──RebalanceBegan──▶ PreparingRebalance ──GenerationBegan──▶ CompletingRebalance
      ▲                         │         ▲                            │        │
      └──────GroupEmptied───────┘         └──────RebalanceBegan────────┘  GenerationSettled
                                          └──────RebalanceBegan──── Stable ◀────┘

The rules try their facts on a copy of the state (see `draft`), so members are frozen and `copy` is shallow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mqcore.groups.commands import Phase
from mqcore.groups.facts import (
    CommittedOffset,
    GenerationBegan,
    GenerationSettled,
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
    GROUP_BYTES,
    issued_id_bytes,
    measured,
    member_bytes,
    offset_bytes,
)
from mqcore.groups.rules import UNPROVEN_MS_MAX
from mqcore.groups.settled import may_expire, next_deadline, restore, settle
from mqcore.groups.transitions import TRANSITIONS
from mqcore.identity import Millis

__all__ = ["TRANSITIONS", "GroupState", "may_expire", "restore", "settle"]


class GroupState:
    def __init__(self) -> None:
        self.phase = Phase.EMPTY
        self.generation = 0
        self.protocol_type = ""  # "": nobody has joined yet, only offsets were committed
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.instances: dict[str, str] = {}  # static members: instance id → member id
        self.pending: dict[str, Millis] = {}  # ids given out, until when they are waited for
        self.join_deadline: Millis | None = None
        self.extendable_until: Millis | None = None
        self.grew = False  # somebody has joined since the deadline was set
        self.unsynced: frozenset[str] = frozenset()
        self.sync_deadline: Millis | None = None
        self.since_wall_ms: Millis | None = None  # of the last kept change of the members
        self.offsets: dict[tuple[str, int], CommittedOffset] = {}
        self.committed = False  # there have been offsets; they may be deleted by now
        self.members_bytes = self.offsets_bytes = 0
        self.protocol_counts: dict[str, int] = {}  # how many members know each
        self._deadline: Millis | None = None  # no later than the true one
        self.knows_deadline = False

    def copy(self) -> GroupState:
        """A state of its own, except for the offsets: no rule that tries facts changes them."""
        other = GroupState.__new__(GroupState)
        other.__dict__.update(self.__dict__)
        other.members = dict(self.members)
        other.instances = dict(self.instances)
        other.pending = dict(self.pending)
        other.protocol_counts = dict(self.protocol_counts)
        return other

    # ── questions ────────────────────────────────────────────────────────────────────────────────

    @property
    def is_blank(self) -> bool:
        """Nothing would be lost by forgetting the group: it is as if nobody had ever asked for it."""
        return self.phase is Phase.DEAD or (
            self.phase is Phase.EMPTY and self.generation == 0 and not self.pending and not self.committed
        )

    @property
    def held_bytes(self) -> int:
        """The memory that the group takes, by the estimates of `memory`."""
        return GROUP_BYTES + self.members_bytes + self.offsets_bytes

    @property
    def is_rebalancing_member_wise(self) -> bool:
        """A rebalance that ends as soon as all are there (not the first one, which waits out its delay)."""
        return self.phase is Phase.PREPARING_REBALANCE and self.extendable_until is None

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def joined(self) -> list[Member]:
        return [member for member in self.members.values() if member.joining is not None]

    def common_protocols(self) -> set[str]:
        """What all members know."""
        return {name for name, count in self.protocol_counts.items() if count == len(self.members)}

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a member with these could be in one generation with those that are here."""
        if not self.members:
            return bool(protocol_type) and any(True for _ in protocols)
        return protocol_type == self.protocol_type and not self.common_protocols().isdisjoint(protocols)

    def elect_protocol(self) -> str:
        """Each member votes for the first of its protocols that all know; the first with most votes wins."""
        candidates = self.common_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next(name for name, _ in member.protocols if name in candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def subscriptions(self) -> tuple[tuple[str, str | None, bytes], ...]:
        """What the leader needs to assign."""
        members = self.members.values()
        return tuple((member.member_id, member.instance_id, member.subscription(self.protocol)) for member in members)

    def deadline(self) -> Millis | None:
        """When time has to decide something, or earlier: a heartbeat makes a deadline later without a look at it."""
        if not self.knows_deadline:
            others = (*self.pending.values(), self.join_deadline, self.sync_deadline)
            self._deadline, self.knows_deadline = next_deadline(self.members.values(), others), True
        return self._deadline

    # ── changes ──────────────────────────────────────────────────────────────────────────────────

    def apply(self, fact: GroupFact) -> None:
        match fact:
            case SessionsRefreshed():
                for member_id in fact.member_ids:
                    self._refresh(member_id, fact.at)
            case OffsetCommitted():
                self._keep_offset((fact.topic, fact.partition), fact.committed)
            case OffsetRemoved():
                self._keep_offset((fact.topic, fact.partition), None)
            case _:
                self.knows_deadline &= isinstance(fact, MemberIdIssued | MemberJoined | MemberSynced)
                self._apply_to_members(fact)

    def _keep_offset(self, place: tuple[str, int], committed: CommittedOffset | None) -> None:
        old = self.offsets.pop(place, None)
        if old is not None:
            self.offsets_bytes -= offset_bytes(place[0], old)
        if committed is not None:
            self.offsets[place] = committed
            self.offsets_bytes += offset_bytes(place[0], committed)
            self.committed = True

    def _apply_to_members(self, fact: GroupFact) -> None:
        match fact:
            case MemberIdIssued():
                self._withdraw(fact.member_id)
                self.pending[fact.member_id] = fact.deadline
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
                self._put(replace(self.members[fact.member_id], syncing=fact.ticket))
                self._expect_sync(self.unsynced - {fact.member_id}, self.sync_deadline)
            case RebalanceExtended():
                self.join_deadline, self.grew = fact.deadline, False
            case RebalanceBegan() | GenerationBegan() | GenerationSettled() | GroupEmptied() | GroupRemoved():
                self._move(fact)
                self.members_bytes = measured(self.members.values(), self.pending)

    def _move(self, fact: RebalanceBegan | GenerationBegan | GenerationSettled | GroupEmptied | GroupRemoved) -> None:
        was = self.phase
        running, replayed, then = TRANSITIONS[type(fact)]
        assert was in running or was in replayed, f"{fact} while {was.value}"
        self.phase = then
        self.join_deadline = self.extendable_until = None
        self.grew = False
        match fact:
            case RebalanceBegan():
                self.join_deadline, self.extendable_until = fact.deadline, fact.extendable_until
                self._expect_sync(frozenset(), None)
                if was is Phase.COMPLETING_REBALANCE:  # what was assigned before holds no more, and nothing else does
                    members = self.members.items()
                    self.members = {name: replace(member, syncing=None, assignment=b"") for name, member in members}
            case GenerationBegan():
                self._begin_generation(fact)
            case GenerationSettled():
                self._settle(fact)
            case GroupEmptied():
                self._clear_members()
                self.generation, self.protocol_type = fact.generation, fact.protocol_type
                self.since_wall_ms = fact.at_wall_ms
            case GroupRemoved():
                self._clear_members()
                self.pending = {}
                self.offsets, self.offsets_bytes = {}, 0

    def _withdraw(self, member_id: str) -> None:
        if self.pending.pop(member_id, None) is not None:
            self.members_bytes -= issued_id_bytes(member_id)

    def _join(self, member: Member, protocol_type: str) -> None:
        self._withdraw(member.member_id)
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.grew = self.grew or member.member_id not in self.members
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
            session_ms = min(member.session_timeout_ms, UNPROVEN_MS_MAX) if member.new else member.session_timeout_ms
            self._put(replace(member, joining=None, new=False, session_deadline=Millis(fact.at + session_ms)))
        self._expect_sync(joined, fact.sync_deadline)

    def _settle(self, fact: GenerationSettled) -> None:
        self.generation, self.protocol_type = fact.generation, fact.protocol_type
        self.protocol, self.leader = fact.protocol, fact.leader
        self.since_wall_ms = fact.at_wall_ms
        present, self.members, self.instances, self.protocol_counts = self.members, {}, {}, {}
        for settled in fact.members:
            self._put(restore(settled, fact.protocol, present.get(settled.member_id)))

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
        self.members[member_id] = replace(member, session_deadline=deadline)
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
