"""Machine: between a member of the running coordinator and what is kept of it in the journal."""

from __future__ import annotations

from mqcore.groups.facts import Member, Protocols, SettledMember


def may_expire(member: Member) -> bool:
    """Who waits for others has no chance to show a sign of life, except that a newcomer's wait has an end."""
    return member.new or not member.waits


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
