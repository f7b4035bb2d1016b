"""Codec: the settings and limits that groups live by, as one value."""

from __future__ import annotations

from dataclasses import dataclass

from mqcore.config import BrokerConfig


@dataclass(frozen=True, slots=True)
class GroupRules:
    """Kafka's settings first; then limits of ours, that no honest client meets."""

    min_session_timeout_ms: int = 1_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 0
    max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000

    # Hard limits. A generation and a commit are one record batch each, and loading reads no batch over 64 MiB.
    max_member_bytes: int = 256 * 1024  # subscriptions of one member; the assignment of one
    max_generation_bytes: int = 16 * 1024 * 1024  # the same of all members
    max_name_bytes: int = 255  # of a group id, an instance id, a protocol: what else a record holds is bounded by it
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
            max_size=config.group_max_size,
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        )
