"""Which segments have expired, decided from sizes, offsets and timestamps alone."""

from __future__ import annotations

import pytest

from mqcore.log.retention import RetentionCheck
from mqcore.log.topic_config import LogConfig

NOW_MS = 10_000


def check(*, log_bytes: int = 0, start_offset: int = 0, limit: int = 100, **settings: int | bool) -> RetentionCheck:
    config = LogConfig(**{"retention_ms": -1, **settings})  # type: ignore[arg-type]
    return RetentionCheck(config, log_bytes, start_offset, limit, NOW_MS)


@pytest.mark.parametrize(
    ("size", "end", "removable"),
    [(10, 100, True), (10, 101, False), (0, 100, False)],
)
def test_only_segments_with_data_below_the_limit_are_removable(size: int, end: int, removable: bool) -> None:
    assert check(limit=100).is_removable(size, end) is removable


def test_a_segment_is_surplus_while_the_log_is_too_large_without_it() -> None:
    retention = check(log_bytes=250, retention_bytes=100)
    assert retention.is_deleted_or_surplus(100, 10)
    retention.count_removed(100)
    assert not retention.is_deleted_or_surplus(100, 20)  # the log would shrink below its limit
    assert retention.is_deleted_or_surplus(50, 20)


def test_a_segment_whose_records_are_all_deleted_expires_even_in_a_compacted_topic() -> None:
    retention = check(start_offset=10, delete=False, compact=True, retention_bytes=0, log_bytes=100)
    assert retention.is_deleted_or_surplus(50, 10)
    assert not retention.is_deleted_or_surplus(50, 11)


@pytest.mark.parametrize(("timestamp", "expired"), [(8_999, True), (9_000, False), (20_000, False)])
def test_a_segment_expires_once_its_newest_record_is_older_than_retention_ms(timestamp: int, expired: bool) -> None:
    retention = check(retention_ms=1000)
    assert retention.needs_timestamp and retention.is_too_old(timestamp) is expired


@pytest.mark.parametrize("settings", [{"retention_ms": -1}, {"retention_ms": 1000, "delete": False, "compact": True}])
def test_without_retention_by_time_no_timestamp_is_needed(settings: dict[str, int | bool]) -> None:
    retention = check(**settings)
    assert not retention.needs_timestamp and not retention.is_too_old(0)
