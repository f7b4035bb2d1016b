"""Where the settings of a topic come from: its own, the changed default, the broker's file, Kafka; in this order."""

from __future__ import annotations

import pytest

from mqcore.log.config import LogConfig
from mqcore.settings import TopicSettings, check_default


def test_the_nearest_wins() -> None:
    settings = TopicSettings({"log.retention.ms": "1", "log.segment.bytes": "1048576"})
    assert settings.config_of({}).retention_ms == 1
    settings.change_broker_defaults({"log.retention.ms": "2", "num.partitions": "7"})
    assert settings.config_of({}).retention_ms == 2
    assert settings.config_of({"retention.ms": "3"}).retention_ms == 3
    settings.change_broker_defaults({})
    assert settings.config_of({}).retention_ms == 1
    assert settings.config_of({}).segment_bytes == 1048576
    assert TopicSettings({}).config_of({}) == LogConfig()


@pytest.mark.parametrize(
    ("file", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.ms": "5"}, 5),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_kafkas_coarser_names_are_understood_and_the_finest_wins(file: dict[str, str], retention_ms: int) -> None:
    assert TopicSettings(file).config_of({}).retention_ms == retention_ms


def test_minutes_win_over_hours() -> None:
    hours, minutes = {"log.retention.hours": "2"}, {"log.retention.minutes": "3"}
    for file in (hours | minutes, minutes | hours):
        assert TopicSettings(file).config_of({}).retention_ms == 180_000


def test_a_default_is_checked_like_the_setting_it_stands_for() -> None:
    assert check_default("log.retention.ms", "5") is None
    assert check_default("log.retention.ms", "x")
    assert check_default("log.retention.hours", "-1") is None
    assert check_default("log.retention.hours", "1.5")
    with pytest.raises(KeyError):
        check_default("log.no.such", "1")
    with pytest.raises(KeyError):
        TopicSettings.check_broker_default("log.retention.hours", "1")  # only Kafka's file knows it
