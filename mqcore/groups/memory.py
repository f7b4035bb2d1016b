"""Machine: how much memory groups use, and the budget that they share.

The sizes are estimates, rounded up from measurements of CPython. A group updates its own sum with each fact, so reading
the sum is cheap. The `count_…` functions compute it again; the invariants compare both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mqcore.groups.facts import CommittedOffset, Member, Protocols

GROUP_BYTES = 2_048
"""Memory of a group without members and offsets."""
MEMBER_BYTES = 1_024
"""Memory of a member without its texts, subscriptions and assignment."""
PROTOCOL_BYTES = 192
"""Memory of one protocol of a member without its name and subscription."""
ISSUED_ID_BYTES = 192
"""Memory of a member id that was issued and is not used yet, without its text."""
OFFSET_BYTES = 320
"""Memory of a committed offset without its topic and metadata."""


class GroupMemory:
    """One budget for all groups of a broker. A reduction always fits, so members can leave even when it is used up."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.refused = 0  # joins, syncs and commits

    def fits(self, growth: int) -> bool:
        return growth <= 0 or self.used + growth <= self.limit


def count_member_bytes(members: Iterable[Member], issued_ids: Iterable[str]) -> int:
    return sum(map(member_bytes, members)) + sum(map(issued_id_bytes, issued_ids))


def count_offset_bytes(offsets: Mapping[tuple[str, int], CommittedOffset]) -> int:
    return sum(offset_bytes(topic, committed) for (topic, _), committed in offsets.items())


def member_bytes(member: Member) -> int:
    texts = _text(member.member_id) + _text(member.client_id) + _text(member.client_host)
    if member.instance_id is not None:
        texts += _text(member.instance_id)
    return MEMBER_BYTES + texts + protocols_bytes(member.protocols) + len(member.assignment)


def protocols_bytes(protocols: Protocols) -> int:
    return sum(PROTOCOL_BYTES + _text(name) + len(subscription) for name, subscription in protocols)


def issued_id_bytes(member_id: str) -> int:
    return ISSUED_ID_BYTES + _text(member_id)


def offset_bytes(topic: str, committed: CommittedOffset) -> int:
    return OFFSET_BYTES + _text(topic) + _text(committed.metadata)


def _text(text: str) -> int:
    return len(text) if text.isascii() else 4 * len(text)
