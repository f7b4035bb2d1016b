"""The table of topic settings."""

from __future__ import annotations

from dataclasses import fields

import pytest

from mqcore.log.topic_config import TOPIC_SETTINGS, LogConfig, setting_error

# What Kafka 4 describes for a topic, apart from settings of internal use.
KAFKAS = """
cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level delete.retention.ms
file.delete.delay.ms flush.messages flush.ms follower.replication.throttled.replicas index.interval.bytes
leader.replication.throttled.replicas local.retention.bytes local.retention.ms max.compaction.lag.ms max.message.bytes
message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.type min.cleanable.dirty.ratio
min.compaction.lag.ms min.insync.replicas preallocate remote.log.copy.disable remote.log.delete.on.disable
remote.storage.enable retention.bytes retention.ms segment.bytes segment.index.bytes segment.jitter.ms segment.ms
unclean.leader.election.enable
"""


def test_the_table_has_and_documents_every_topic_setting_of_kafka() -> None:
    assert sorted(TOPIC_SETTINGS) == KAFKAS.split()
    for name, setting in TOPIC_SETTINGS.items():
        assert setting.name == name
        assert setting.documentation.endswith(".")


def test_every_default_is_valid_and_equals_that_of_the_log() -> None:
    assert LogConfig.from_settings({name: setting.default for name, setting in TOPIC_SETTINGS.items()}) == LogConfig()


def test_every_field_of_the_log_config_is_a_setting() -> None:
    names = {name.replace(".", "_") for name in TOPIC_SETTINGS} | {"compact", "delete"}
    assert {field.name for field in fields(LogConfig)} <= names


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "compact"), ("cleanup.policy", "compact,delete"), ("cleanup.policy", " delete , compact "),
        ("retention.ms", "-1"), ("retention.bytes", "9223372036854775807"), ("min.cleanable.dirty.ratio", "0.01"),
        ("message.timestamp.type", "LogAppendTime"), ("preallocate", "TRUE"), ("compression.type", "zstd"),
        ("compression.gzip.level", "-1"), ("flush.messages", "1"), ("segment.bytes", " 1048576 "),
    ],
)  # fmt: skip
def test_values_that_kafka_accepts_are_accepted(name: str, value: str) -> None:
    assert setting_error(name, value) is None


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("cleanup.policy", "shred", "must be one or more of compact, delete"),
        ("cleanup.policy", "", "must be one or more of"),
        ("retention.ms", "-2", "must be at least -1"),
        ("retention.ms", "a week", "must be a whole number"),
        ("retention.ms", "1.5", "must be a whole number"),
        ("retention.ms", "9223372036854775808", "is out of range"),
        ("segment.bytes", "2147483648", "is out of range"),
        ("segment.bytes", "13", "must be at least 14"),
        ("min.cleanable.dirty.ratio", "1.1", "must be no more than 1"),
        ("min.cleanable.dirty.ratio", "nan", "must be a finite number"),
        ("preallocate", "yes", "must be true or false"),
        ("message.timestamp.type", "Never", "must be one of CreateTime, LogAppendTime"),
        ("flush.messages", "0", "must be at least 1"),
        ("compression.gzip.level", "0", "must be -1 or between 1 and 9"),
        ("remote.storage.enable", "true", "must be false"),
    ],
)
def test_values_that_kafka_rejects_are_rejected_with_the_reason(name: str, value: str, reason: str) -> None:
    found = setting_error(name, value)
    assert found is not None
    assert found.startswith(f"Invalid value {value} for configuration {name}: ")
    assert reason in found
    with pytest.raises(ValueError, match=name):
        LogConfig.from_settings({name: value})


def test_an_unknown_setting_is_refused() -> None:
    assert setting_error("retention.days", "1") == "Unknown topic config name: retention.days"
    with pytest.raises(ValueError, match=r"retention\.days"):
        LogConfig.from_settings({"retention.days": "1"})


def test_settings_become_values() -> None:
    config = LogConfig.from_settings(
        {"cleanup.policy": "compact", "retention.ms": "5", "min.cleanable.dirty.ratio": "0.25", "preallocate": "true"}
    )
    assert (config.compact, config.delete) == (True, False)
    assert (config.retention_ms, config.min_cleanable_dirty_ratio) == (5, 0.25)


@pytest.mark.parametrize("value", ["1_000", "--5", "1e3", "0x10", "١", "9" * 5000, "", "+", "5 5"])
def test_a_number_is_written_in_decimal(value: str) -> None:
    found = setting_error("retention.ms", value)
    assert found is not None and len(found) < 300


@pytest.mark.parametrize(("value", "parsed"), [(" 5 ", 5), ("+5", 5), ("-1", -1)])
def test_a_number_may_have_blanks_and_a_sign(value: str, parsed: int) -> None:
    assert setting_error("retention.ms", value) is None
    assert LogConfig.from_settings({"retention.ms": value}).retention_ms == parsed


@pytest.mark.parametrize("value", ["0.5", ".5", "5e-1", "1", "1E0"])
def test_a_fraction_may_have_an_exponent(value: str) -> None:
    assert setting_error("min.cleanable.dirty.ratio", value) is None


def test_a_number_format_that_an_older_broker_accepted_is_still_read() -> None:
    assert LogConfig.from_settings({"retention.ms": "1_000"}).retention_ms == 1000
