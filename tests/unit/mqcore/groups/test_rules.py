"""What of the broker's configuration groups live by, and where it stops being true."""

from __future__ import annotations

from mqcore.config import BrokerConfig
from mqcore.groups.rules import LONGEST_TEXT, MOST_MEMBERS, GroupRules


def test_the_settings_of_the_broker_are_the_rules_of_its_groups() -> None:
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


def test_settings_cannot_go_beyond_what_a_record_holds_and_a_heartbeat_can_look_at() -> None:
    rules = GroupRules.of(BrokerConfig(group_max_size=10**6, offset_metadata_max_bytes=10**6))
    assert (rules.max_size, rules.offset_metadata_max_bytes) == (MOST_MEMBERS, LONGEST_TEXT)
