"""Machine: the settings and limits of groups, as one value."""

from __future__ import annotations

from typing import NamedTuple

from mqcore.config import BrokerConfig

TEXT_BYTES_MAX = 32_767  # what a string in a record of `__consumer_offsets` can hold
MEMBERS_MAX = 5_000  # even if group.max.size is larger, because a rebalance works through all members
PROTOCOLS_MAX = 100
"""Protocols (assignors) of one member; a join with more of them is answered with INVALID_REQUEST."""
UNPROVEN_MS_MAX = 60_000
"""Time to use an issued member id, and then to send the first SyncGroup. A shorter session timeout applies instead."""
GROUP_MEMORY_BYTES_MAX = 64 << 20
"""Memory for the members, assignments and offsets of all groups; group.memory.max.bytes changes it."""


class GroupRules(NamedTuple):
    """First Kafka's settings, then limits of this broker that no regular client reaches."""

    min_session_timeout_ms: int = 1_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 0
    max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    memory_bytes: int = GROUP_MEMORY_BYTES_MAX

    # A generation and a commit are one record batch each, and loading does not read batches over 64 MiB.
    max_member_bytes: int = 256 * 1024  # the subscriptions of one member, or its assignment
    max_generation_bytes: int = 16 * 1024 * 1024  # subscriptions and assignments of all members
    max_name_bytes: int = 255  # a group id, an instance id, a protocol; JoinGroup cuts client ids
    max_issued_ids: int = 1_000  # member ids of one group that were issued and are not used yet
    max_offsets: int = 50_000  # committed offsets of one group
    max_commit_bytes: int = 16 * 1024 * 1024  # topics and metadata of one commit
    new_member_join_timeout_ms: int = 300_000  # a new member that waits longer in JoinGroup is removed

    @classmethod
    def of(cls, config: BrokerConfig) -> GroupRules:
        return cls(
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            max_size=min(config.group_max_size, MEMBERS_MAX),
            offset_metadata_max_bytes=min(config.offset_metadata_max_bytes, TEXT_BYTES_MAX),
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            memory_bytes=config.group_memory_max_bytes,
        )
