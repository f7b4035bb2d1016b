"""Table and values: Kafka's topic settings by name, and those that a log reads.

Own rule: `TOPIC_SETTINGS` is the only place that knows a setting's type, default and limits. Settings without effect in
this broker stay in the table, because tools describe and set them; their documentation says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mqcore.log.setting_types import (
    FOREVER,
    INT_MAX,
    Check,
    SettingType,
    TopicSetting,
    invalid_value_message,
    value_error,
)


def _between(low: float, high: float) -> Check:
    def check(value: Any) -> str | None:
        if low <= value <= high:
            return None
        return f"Value must be at least {low}" if value < low else f"Value must be no more than {high}"

    return check


def _one_of(*names: str) -> Check:
    return lambda value: None if value in names else f"must be one of {', '.join(names)}"


def _some_of(*names: str) -> Check:
    return lambda value: None if value and set(value) <= set(names) else f"must be one or more of {', '.join(names)}"


def _anything(value: Any) -> str | None:
    return None


def _no_remote_storage(value: Any) -> str | None:
    return "must be false, because this broker has no remote storage" if value else None


def _gzip_level(value: Any) -> str | None:
    return None if value == -1 or 1 <= value <= 9 else "must be -1 or between 1 and 9"


_B, _S, _I, _L, _D, _X = (
    SettingType.BOOLEAN,
    SettingType.STRING,
    SettingType.INT,
    SettingType.LONG,
    SettingType.DOUBLE,
    SettingType.LIST,
)
_NEVER_NEGATIVE = _between(0, FOREVER)
_MINUS_ONE_UP = _between(-1, FOREVER)
_MINUS_TWO_UP = _between(-2, FOREVER)
_WITHOUT_EFFECT = " Accepted and described, but without effect here."
_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

_ROWS: tuple[tuple[str, SettingType, str, Check, str | None, str], ...] = (
    ("cleanup.policy", _X, "delete", _some_of("compact", "delete"), "log.cleanup.policy",
     "What happens to old records: 'delete' drops segments by age and size, 'compact' keeps the last record of a key."),
    ("compression.gzip.level", _I, "-1", _gzip_level, "compression.gzip.level",
     "Level for gzip where the broker compresses." + _WITHOUT_EFFECT),
    ("compression.lz4.level", _I, "9", _between(1, 17), "compression.lz4.level",
     "Level for lz4 where the broker compresses." + _WITHOUT_EFFECT),
    ("compression.type", _S, "producer", _one_of(*_CODECS), "compression.type",
     "Codec of the stored batches. Batches are always stored as the producer sent them." + _WITHOUT_EFFECT),
    ("compression.zstd.level", _I, "3", _between(-131072, 22), "compression.zstd.level",
     "Level for zstd where the broker compresses." + _WITHOUT_EFFECT),
    ("delete.retention.ms", _L, "86400000", _NEVER_NEGATIVE, "log.cleaner.delete.retention.ms",
     "How long a compacted topic keeps the tombstone of a deleted key, so that consumers see it."),
    ("file.delete.delay.ms", _L, "60000", _NEVER_NEGATIVE, "log.segment.delete.delay.ms",
     "How long the files of a removed segment stay on disk under another name."),
    ("flush.messages", _L, str(FOREVER), _between(1, FOREVER), "log.flush.interval.messages",
     "How many records may be appended before they are forced to disk; 1 acknowledges only records on disk."),
    ("flush.ms", _L, str(FOREVER), _NEVER_NEGATIVE, "log.flush.interval.ms",
     "How long a record may wait until it is forced to disk."),
    ("follower.replication.throttled.replicas", _X, "", _anything, None,
     "Replicas whose copying is slowed down on the follower." + _WITHOUT_EFFECT),
    ("index.interval.bytes", _I, "4096", _NEVER_NEGATIVE, "log.index.interval.bytes",
     "Bytes of log between two entries of the offset index."),
    ("leader.replication.throttled.replicas", _X, "", _anything, None,
     "Replicas whose copying is slowed down on the leader." + _WITHOUT_EFFECT),
    ("local.retention.bytes", _L, "-2", _MINUS_TWO_UP, "log.local.retention.bytes",
     "Local part of a topic with remote storage, by size." + _WITHOUT_EFFECT),
    ("local.retention.ms", _L, "-2", _MINUS_TWO_UP, "log.local.retention.ms",
     "Local part of a topic with remote storage, by age." + _WITHOUT_EFFECT),
    ("max.compaction.lag.ms", _L, str(FOREVER), _between(1, FOREVER), "log.cleaner.max.compaction.lag.ms",
     "How long a record may stay exempt from compaction at most."),
    ("max.message.bytes", _I, "1048588", _NEVER_NEGATIVE, "message.max.bytes",
     "The largest batch that is accepted, after compression."),
    ("message.timestamp.after.max.ms", _L, "3600000", _NEVER_NEGATIVE, "log.message.timestamp.after.max.ms",
     "How far in the future the timestamp of a record may lie (CreateTime only)."),
    ("message.timestamp.before.max.ms", _L, str(FOREVER), _NEVER_NEGATIVE, "log.message.timestamp.before.max.ms",
     "How far in the past the timestamp of a record may lie (CreateTime only)."),
    ("message.timestamp.type", _S, "CreateTime", _one_of("CreateTime", "LogAppendTime"), "log.message.timestamp.type",
     "Whether a record's timestamp is its producer's or that of its arrival."),
    ("min.cleanable.dirty.ratio", _D, "0.5", _between(0, 1), "log.cleaner.min.cleanable.ratio",
     "Compaction runs when at least this share of the bytes has not been compacted."),
    ("min.compaction.lag.ms", _L, "0", _NEVER_NEGATIVE, "log.cleaner.min.compaction.lag.ms",
     "How long a record stays exempt from compaction."),
    ("min.insync.replicas", _I, "1", _between(1, INT_MAX), "min.insync.replicas",
     "How many in-sync replicas a write with acks=all needs."),
    ("preallocate", _B, "false", _anything, "log.preallocate",
     "Whether segment files are made at their full size." + _WITHOUT_EFFECT),
    ("remote.log.copy.disable", _B, "false", _anything, None, "Makes remote storage read-only." + _WITHOUT_EFFECT),
    ("remote.log.delete.on.disable", _B, "false", _anything, None,
     "Drops remote data with the feature." + _WITHOUT_EFFECT),
    ("remote.storage.enable", _B, "false", _no_remote_storage, None,
     "Tiered storage, which this broker does not have: only false is accepted."),
    ("retention.bytes", _L, "-1", _MINUS_ONE_UP, "log.retention.bytes",
     "How large a partition may grow before its oldest segments are dropped; -1 for no limit."),
    ("retention.ms", _L, "604800000", _MINUS_ONE_UP, "log.retention.ms",
     "How old records may get before their segments are dropped; -1 for no limit."),
    ("segment.bytes", _I, "1073741824", _between(14, INT_MAX), "log.segment.bytes",
     "Size at which a segment is closed and the next one begun."),
    ("segment.index.bytes", _I, "10485760", _between(4, INT_MAX), "log.index.size.max.bytes",
     "Size of an index at which its segment is closed."),
    ("segment.jitter.ms", _L, "0", _NEVER_NEGATIVE, "log.roll.jitter.ms",
     "Spread of segment.ms, so that not all partitions roll at once."),
    ("segment.ms", _L, "604800000", _between(1, FOREVER), "log.roll.ms",
     "Age at which a segment is closed even if it is not full."),
    ("unclean.leader.election.enable", _B, "false", _anything, "unclean.leader.election.enable",
     "Whether a replica that is not in sync may lead as a last resort, losing records." + _WITHOUT_EFFECT),
)  # fmt: skip

TOPIC_SETTINGS: dict[str, TopicSetting] = {row[0]: TopicSetting(*row) for row in _ROWS}


def setting_error(name: str, value: str) -> str | None:
    """Why a topic cannot have this setting with this value; None if it can."""
    setting = TOPIC_SETTINGS.get(name)
    if setting is None:
        return f"Unknown topic config name: {name}"
    return value_error(setting, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The settings of one topic as values. The fields are Kafka's names with underscores."""

    compact: bool = False
    delete: bool = True
    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = FOREVER
    min_cleanable_dirty_ratio: float = 0.5
    flush_messages: int = FOREVER
    flush_ms: int = FOREVER
    max_message_bytes: int = 1_048_588
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = FOREVER
    message_timestamp_after_max_ms: int = 3_600_000
    min_insync_replicas: int = 1

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> LogConfig:
        """From a topic's settings by name, with defaults for the others. Raises `ValueError` for an invalid setting.

        Accepts every number format that an older broker accepted, because such values may be in the metadata log."""
        fields: dict[str, Any] = {}
        for name, text in settings.items():
            setting = TOPIC_SETTINGS.get(name)
            if setting is None:
                raise ValueError(f"Unknown topic config name: {name}")
            try:
                value = setting.parse(text)
            except ValueError as error:
                raise ValueError(invalid_value_message(name, text, error)) from None
            field = name.replace(".", "_")
            if name == "cleanup.policy":
                fields["compact"], fields["delete"] = "compact" in value, "delete" in value
            elif field in cls.__dataclass_fields__:
                fields[field] = value
        return cls(**fields)
