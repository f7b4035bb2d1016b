"""Machine: one member: when its session ends, and what the journal keeps of it."""

from __future__ import annotations

from collections.abc import Iterable

from mqcore.groups.facts import Member, Protocols, StoredMember
from mqcore.identity import Millis


def may_expire(member: Member) -> bool:
    """A member that waits for the others sends no heartbeats, so its session cannot expire.

    A new member is the exception: its first JoinGroup may wait only for a limited time.
    """
    return member.is_new or not member.is_waiting


def next_deadline(members: Iterable[Member], others: Iterable[Millis | None]) -> Millis | None:
    """The earliest end of a session, or one of the other deadlines if it is earlier."""
    sessions = (member.session_deadline for member in members if may_expire(member))
    return min((deadline for deadline in (*sessions, *others) if deadline is not None), default=None)


def from_stored_member(stored: StoredMember, protocol: str, known: Member | None) -> Member:
    """The member of a record. `known` is the live member of that id, which has more protocols than a record keeps.

    If the stored subscription is not one of the live ones, the live member is from an older record and is ignored.
    """
    protocols: Protocols = ((protocol, stored.subscription),)
    if known is not None and protocols[0] in known.protocols:
        protocols = known.protocols
    return Member(
        stored.member_id,
        stored.instance_id,
        stored.client_id,
        stored.client_host,
        stored.session_timeout_ms,
        stored.rebalance_timeout_ms,
        protocols,
        stored.assignment,
        None if known is None else known.session_deadline,
    )


def to_stored_member(member: Member, protocol: str | None, assignment: bytes) -> StoredMember:
    return StoredMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.session_timeout_ms,
        member.rebalance_timeout_ms,
        member.subscription(protocol),
        assignment,
    )
