"""The topic defaults in a broker's file, under all the names that Kafka has for them."""

from __future__ import annotations

import pytest

from mqcore.topic_defaults import check_default, topic_settings


@pytest.mark.parametrize(
    ("file", "retention_ms"),
    [
        ({"log.retention.ms": "5"}, "5"),
        ({"log.retention.hours": "2"}, "7200000"),
        ({"log.retention.minutes": "3"}, "180000"),
        ({"log.retention.hours": "2", "log.retention.ms": "5"}, "5"),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, "180000"),
        ({"log.retention.minutes": "3", "log.retention.hours": "2"}, "180000"),
        ({"log.retention.hours": "-1"}, "-1"),
    ],
)
def test_the_finest_of_several_names_wins_in_any_order(file: dict[str, str], retention_ms: str) -> None:
    assert topic_settings(file) == {"retention.ms": retention_ms}


def test_an_empty_file_sets_nothing() -> None:
    assert topic_settings({}) == {}


def test_a_default_is_checked_like_the_topic_setting_that_it_is_the_default_of() -> None:
    assert check_default("log.retention.ms", "5") is None
    assert check_default("log.retention.ms", "x")
    assert check_default("log.retention.hours", "-1") is None
    assert check_default("log.retention.hours", "1.5")
    with pytest.raises(KeyError):
        check_default("log.no.such", "1")
