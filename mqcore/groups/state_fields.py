"""Machine: the fields of a group's state, and what the rules read from them.

The rules apply their facts to a copy of the state (see `draft`), so members are frozen and `copy` is shallow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from mqcore.groups.commands import Phase
from mqcore.groups.facts import (
    CommittedOffset,
    Member,
)
from mqcore.groups.memory import (
    GROUP_BYTES,
)
from mqcore.groups.sessions import next_deadline
from mqcore.identity import Millis


class GroupFields:
    def __init__(self) -> None:
        self.phase = Phase.EMPTY
        self.generation = 0
        self.protocol_type = ""  # empty until the first member joins, for example if only offsets were committed
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.instances: dict[str, str] = {}  # static members: instance id → member id
        self.issued_ids: dict[str, Millis] = {}  # not used yet, with the times at which they expire
        self.join_deadline: Millis | None = None
        self.extendable_until: Millis | None = None
        self.has_grown = False  # a new member has joined since the deadline was set
        self.unsynced: frozenset[str] = frozenset()
        self.sync_deadline: Millis | None = None
        self.since_wall_ms: Millis | None = None  # when the last kept change of the members happened
        self.offsets: dict[tuple[str, int], CommittedOffset] = {}
        self.has_had_offsets = False  # stays true when they are deleted
        self.members_bytes = self.offsets_bytes = 0
        self.protocol_counts: dict[str, int] = {}  # how many members support each
        self._deadline: Millis | None = None  # never later than the exact one
        self.knows_deadline = False

    def copy(self) -> Self:
        """An independent copy, except for the offsets: no rule that uses a copy changes them."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.members = dict(self.members)
        other.instances = dict(self.instances)
        other.issued_ids = dict(self.issued_ids)
        other.protocol_counts = dict(self.protocol_counts)
        return other

    # ── queries ─────────────────────────────────────────────────────────────────────────────────

    @property
    def is_blank(self) -> bool:
        """Whether dropping the group would lose nothing: it cannot be told from a group that never existed."""
        return self.phase is Phase.DEAD or (
            self.phase is Phase.EMPTY and self.generation == 0 and not self.issued_ids and not self.has_had_offsets
        )

    @property
    def held_bytes(self) -> int:
        """The memory that the group uses, by the estimates of `memory`."""
        return GROUP_BYTES + self.members_bytes + self.offsets_bytes

    @property
    def ends_when_all_have_joined(self) -> bool:
        """Whether the rebalance ends as soon as all members have joined. The first one waits for its whole delay."""
        return self.phase is Phase.PREPARING_REBALANCE and self.extendable_until is None

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def joined(self) -> list[Member]:
        return [member for member in self.members.values() if member.join_ticket is not None]

    def common_protocols(self) -> set[str]:
        """The protocols that all members support."""
        return {name for name, count in self.protocol_counts.items() if count == len(self.members)}

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a member with these protocols has one in common with all present members."""
        if not self.members:
            return bool(protocol_type) and any(True for _ in protocols)
        return protocol_type == self.protocol_type and not self.common_protocols().isdisjoint(protocols)

    def elect_protocol(self) -> str:
        """Each member votes for its first protocol that all members support. The first one with the most votes wins."""
        candidates = self.common_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next(name for name, _ in member.protocols if name in candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def subscriptions(self) -> tuple[tuple[str, str | None, bytes], ...]:
        """What the leader needs to assign partitions: member id, instance id and subscription of each member."""
        members = self.members.values()
        return tuple((member.member_id, member.instance_id, member.subscription(self.protocol)) for member in members)

    def deadline(self) -> Millis | None:
        """The next time at which a `Tick` is needed, or earlier.

        A heartbeat moves a deadline back without computing the earliest one again, because that takes a look at all
        members. A tick that comes too early decides nothing and computes the exact deadline.
        """
        if not self.knows_deadline:
            others = (*self.issued_ids.values(), self.join_deadline, self.sync_deadline)
            self._deadline, self.knows_deadline = next_deadline(self.members.values(), others), True
        return self._deadline
