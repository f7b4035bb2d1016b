"""The rules of groups come from the broker's settings, within fixed limits."""

from __future__ import annotations

from mqcore.config import BrokerConfig
from mqcore.groups.rules import MEMBERS_MAX, TEXT_BYTES_MAX, GroupRules


def test_group_rules_come_from_the_settings_of_the_broker() -> None:
    config = BrokerConfig(
        group_min_session_timeout_ms=11,
        group_max_session_timeout_ms=12,
        group_initial_rebalance_delay_ms=13,
        group_max_size=14,
        offset_metadata_max_bytes=15,
        offsets_retention_minutes=16,
    )
    rules = GroupRules.of(config)
    assert (rules.min_session_timeout_ms, rules.max_session_timeout_ms) == (11, 12)
    assert (rules.initial_rebalance_delay_ms, rules.max_size) == (13, 14)
    assert (rules.offset_metadata_max_bytes, rules.offsets_retention_ms) == (15, 16 * 60_000)


def test_group_rules_are_capped_by_what_records_and_rebalances_can_handle() -> None:
    rules = GroupRules.of(BrokerConfig(group_max_size=10**6, offset_metadata_max_bytes=10**6))
    assert (rules.max_size, rules.offset_metadata_max_bytes) == (MEMBERS_MAX, TEXT_BYTES_MAX)
