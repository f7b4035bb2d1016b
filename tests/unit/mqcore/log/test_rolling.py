"""When the active segment is full, decided from sizes, offsets and ages alone."""

from __future__ import annotations

import pytest

from mqcore.log.index import RELATIVE_OFFSET_MAX, TIME_ENTRY_BYTES
from mqcore.log.rolling import must_roll, segment_age_ms
from mqcore.log.topic_config import LogConfig

CONFIG = LogConfig(segment_bytes=1000, segment_ms=5000, segment_index_bytes=120)


def rolls(
    config: LogConfig = CONFIG,
    *,
    size: int = 1,
    offset: int = 1,
    index_bytes: int = 0,
    age_ms: int = 0,
    path: str = "t/0",
) -> bool:
    return must_roll(config, size, offset, index_bytes, age_ms, path)


def test_each_limit_may_be_reached_but_not_exceeded() -> None:
    assert not rolls(size=1000) and rolls(size=1001)
    assert not rolls(offset=RELATIVE_OFFSET_MAX) and rolls(offset=RELATIVE_OFFSET_MAX + 1)
    assert not rolls(index_bytes=120 - TIME_ENTRY_BYTES) and rolls(index_bytes=121 - TIME_ENTRY_BYTES)
    assert not rolls(age_ms=5000) and rolls(age_ms=5001)


def test_jitter_shortens_the_age_by_a_part_that_depends_only_on_the_path() -> None:
    config = LogConfig(segment_bytes=1000, segment_ms=5000, segment_jitter_ms=1000)
    first_age = {
        path: next(age for age in range(3_000, 5_002) if rolls(config, age_ms=age, path=path)) for path in "abcd"
    }
    assert all(4_000 < age <= 5_001 for age in first_age.values())
    assert len(set(first_age.values())) > 1
    assert first_age == {
        path: next(age for age in range(3_000, 5_002) if rolls(config, age_ms=age, path=path)) for path in "abcd"
    }


@pytest.mark.parametrize(
    ("first", "last", "by_clock", "age_ms"),
    [(1000, 4000, 9, 3000), (None, 4000, 9, 9), (-1, 4000, 9, 9)],
)
def test_age_is_measured_between_timestamps_and_without_them_by_the_clock(
    first: int | None, last: int, by_clock: int, age_ms: int
) -> None:
    assert segment_age_ms(first, last, by_clock) == age_ms
