"""Codec: the settings and limits that groups live by, as one value."""

from __future__ import annotations

from dataclasses import dataclass

from mqcore.config import BrokerConfig

LONGEST_TEXT = 32_767  # of a string in a record of `__consumer_offsets`
MOST_MEMBERS = 5_000  # even if group.max.size is larger: a rebalance looks at all of them
PROTOCOLS_MAX = 100
"""Protocols (assignors) that one member may name; a join with more is answered with INVALID_REQUEST."""
UNPROVEN_MS_MAX = 60_000
"""Time that a member has to come back with its issued id, and then to its first SyncGroup, if its session is longer."""
GROUP_MEMORY_BYTES_MAX = 64 << 20
"""Memory of all groups together, unless group.memory.max.bytes says otherwise: members, assignments and offsets."""


@dataclass(frozen=True, slots=True)
class GroupRules:
    """Kafka's settings first; then limits of ours, that no honest client meets."""

    min_session_timeout_ms: int = 1_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 0
    max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    memory_bytes: int = GROUP_MEMORY_BYTES_MAX

    # Hard limits. A generation and a commit are one record batch each, and loading reads no batch over 64 MiB.
    max_member_bytes: int = 256 * 1024  # subscriptions of one member; the assignment of one
    max_generation_bytes: int = 16 * 1024 * 1024  # the same of all members
    max_name_bytes: int = 255  # of a group id, an instance id, a protocol; JoinGroup cuts client ids
    max_pending: int = 1_000  # ids given out that nobody has come back with
    max_offsets: int = 50_000  # of one group
    max_commit_bytes: int = 16 * 1024 * 1024  # texts in one commit
    new_member_join_timeout_ms: int = 300_000  # a new member whose JoinGroup waits longer is taken for gone

    @classmethod
    def of(cls, config: BrokerConfig) -> GroupRules:
        return cls(
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            max_size=min(config.group_max_size, MOST_MEMBERS),
            offset_metadata_max_bytes=min(config.offset_metadata_max_bytes, LONGEST_TEXT),
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            memory_bytes=config.group_memory_max_bytes,
        )
