"""Machine: one member: when its session may end, and what the journal keeps of it."""

from __future__ import annotations

from collections.abc import Iterable

from mqcore.groups.facts import Member, Protocols, SettledMember
from mqcore.identity import Millis


def may_expire(member: Member) -> bool:
    """Who waits for others has no chance to show a sign of life, except that a newcomer's wait has an end."""
    return member.new or not member.waits


def next_deadline(members: Iterable[Member], others: Iterable[Millis | None]) -> Millis | None:
    """The earliest moment at which a session ends or one of the others is reached."""
    sessions = (member.session_deadline for member in members if may_expire(member))
    return min((moment for moment in (*sessions, *others) if moment is not None), default=None)


def restore(settled: SettledMember, protocol: str, known: Member | None) -> Member:
    """The member of a record. Of who is here already more is known, unless that is from an older record."""
    protocols: Protocols = ((protocol, settled.subscription),)
    if known is not None and protocols[0] in known.protocols:
        protocols = known.protocols
    return Member(
        settled.member_id,
        settled.instance_id,
        settled.client_id,
        settled.client_host,
        settled.session_timeout_ms,
        settled.rebalance_timeout_ms,
        protocols,
        settled.assignment,
        None if known is None else known.session_deadline,
    )


def settle(member: Member, protocol: str | None, assignment: bytes) -> SettledMember:
    return SettledMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.session_timeout_ms,
        member.rebalance_timeout_ms,
        member.subscription(protocol),
        assignment,
    )
