"""The clients of the group simulation, and the part of a group's state that must survive a crash."""

from __future__ import annotations

from dataclasses import dataclass

from mqcore.groups.commands import JoinAnswer, SyncAnswer
from mqcore.groups.sessions import to_stored_member
from mqcore.groups.state import GroupState
from tests.unit.mqcore.groups.group_driver import Reply, subscription

PARTITIONS = tuple(range(4))
SESSION_MS = 6_000
REBALANCE_MS = 12_000
LONG_SILENCE_MS = 400_000
PROTOCOLS = (
    (("range", subscription("orders")),),
    (("sticky", subscription("orders")), ("range", subscription("orders"))),
    (("range", subscription("orders", "payments")), ("sticky", subscription("orders"))),
)


@dataclass
class Client:
    """A consumer. It takes the next step of the protocol when the history says so, or never again."""

    number: int
    instance: str | None
    protocols: tuple[tuple[str, bytes], ...]
    requires_issued_id: bool
    member_id: str = ""
    generation: int = -1
    owned: bytes = b""
    settled: bool = False
    joining: Reply[JoinAnswer] | None = None
    syncing: Reply[SyncAnswer] | None = None
    syncing_as: tuple[int, int, str] = (
        0,
        -1,
        "",
    )  # incarnation of the group, generation, seat

    @property
    def seat(self) -> str:
        return self.instance or self.member_id

    def forget(self) -> None:
        self.member_id, self.generation, self.settled, self.owned = "", -1, False, b""


def durable_state(state: GroupState) -> tuple[object, ...]:
    """The part of the state that survives the coordinator."""
    members = {
        member.member_id: to_stored_member(member, state.protocol, member.assignment)
        for member in state.members.values()
    }
    return state.phase, state.generation, state.protocol_type, state.protocol, state.leader, members, state.offsets
