"""Table and values: the topic settings of Kafka, by their names there, and the part of them the log reads.

Own rule: `TOPIC_SETTINGS` is the only place that knows a setting's type, default and limits. Settings that have no
effect in this broker stay in the table, because tools describe and set them, and say so in their documentation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

FOREVER = 2**63 - 1
_INT_MAX = 2**31 - 1


class SettingType(IntEnum):
    """The numbers that DescribeConfigs has for them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8


Check = Callable[[Any], str | None]


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
    return "must be false, there is no remote storage here" if value else None


def _gzip_level(value: Any) -> str | None:
    return None if value == -1 or 1 <= value <= 9 else "must be -1 or between 1 and 9"


@dataclass(frozen=True, slots=True)
class TopicSetting:
    """One row of the table; `synonym` is the broker setting that is the default of all topics."""

    name: str
    type: SettingType
    default: str
    check: Check
    synonym: str | None
    documentation: str

    def parse(self, text: str) -> Any:
        """The value; `ValueError` with the reason if the text is none."""
        value = _PARSERS[self.type](text.strip())
        reason = self.check(value)
        if reason is not None:
            raise ValueError(reason)
        return value


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise ValueError("must be true or false")


def _integer(limit: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError("must be a whole number") from None
        if not -limit - 1 <= value <= limit:
            raise ValueError("Not a number of this type, is out of range")
        return value

    return parse


def _double(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("must be a number") from None
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


def _list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


_PARSERS: dict[SettingType, Callable[[str], Any]] = {
    SettingType.BOOLEAN: _boolean,
    SettingType.STRING: str,
    SettingType.CLASS: str,
    SettingType.SHORT: _integer(2**15 - 1),
    SettingType.INT: _integer(_INT_MAX),
    SettingType.LONG: _integer(FOREVER),
    SettingType.DOUBLE: _double,
    SettingType.LIST: _list,
}

_WHOLE = (SettingType.SHORT, SettingType.INT, SettingType.LONG)
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)  # Python would also take 1_000
_QUOTED = 100

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
_IDLE = " Accepted and described, but without effect here."
_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

_ROWS: tuple[tuple[str, SettingType, str, Check, str | None, str], ...] = (
    ("cleanup.policy", _X, "delete", _some_of("compact", "delete"), "log.cleanup.policy",
     "What becomes of old records: 'delete' drops segments by age and size, 'compact' keeps the last record of a key."),
    ("compression.gzip.level", _I, "-1", _gzip_level, "compression.gzip.level",
     "Level for gzip where the broker compresses." + _IDLE),
    ("compression.lz4.level", _I, "9", _between(1, 17), "compression.lz4.level",
     "Level for lz4 where the broker compresses." + _IDLE),
    ("compression.type", _S, "producer", _one_of(*_CODECS), "compression.type",
     "Codec of the stored batches. Batches are always stored as the producer sent them." + _IDLE),
    ("compression.zstd.level", _I, "3", _between(-131072, 22), "compression.zstd.level",
     "Level for zstd where the broker compresses." + _IDLE),
    ("delete.retention.ms", _L, "86400000", _NEVER_NEGATIVE, "log.cleaner.delete.retention.ms",
     "How long a compacted topic keeps the tombstone of a deleted key, so that readers get to see it."),
    ("file.delete.delay.ms", _L, "60000", _NEVER_NEGATIVE, "log.segment.delete.delay.ms",
     "How long the files of a removed segment stay on disk under another name."),
    ("flush.messages", _L, str(FOREVER), _between(1, FOREVER), "log.flush.interval.messages",
     "How many records may be appended before they are forced to disk; 1 acknowledges only what is on disk."),
    ("flush.ms", _L, str(FOREVER), _NEVER_NEGATIVE, "log.flush.interval.ms",
     "How long a record may wait until it is forced to disk."),
    ("follower.replication.throttled.replicas", _X, "", _anything, None,
     "Replicas whose copying is slowed down on the follower." + _IDLE),
    ("index.interval.bytes", _I, "4096", _NEVER_NEGATIVE, "log.index.interval.bytes",
     "Bytes of log between two entries of the offset index."),
    ("leader.replication.throttled.replicas", _X, "", _anything, None,
     "Replicas whose copying is slowed down on the leader." + _IDLE),
    ("local.retention.bytes", _L, "-2", _MINUS_TWO_UP, "log.local.retention.bytes",
     "Local part of a topic with remote storage, by size." + _IDLE),
    ("local.retention.ms", _L, "-2", _MINUS_TWO_UP, "log.local.retention.ms",
     "Local part of a topic with remote storage, by age." + _IDLE),
    ("max.compaction.lag.ms", _L, str(FOREVER), _between(1, FOREVER), "log.cleaner.max.compaction.lag.ms",
     "How long a record may at most stay exempt from compaction."),
    ("max.message.bytes", _I, "1048588", _NEVER_NEGATIVE, "message.max.bytes",
     "The largest batch that is taken, after compression."),
    ("message.timestamp.after.max.ms", _L, "3600000", _NEVER_NEGATIVE, "log.message.timestamp.after.max.ms",
     "How far in the future the timestamp of a record may lie (CreateTime only)."),
    ("message.timestamp.before.max.ms", _L, str(FOREVER), _NEVER_NEGATIVE, "log.message.timestamp.before.max.ms",
     "How far in the past the timestamp of a record may lie (CreateTime only)."),
    ("message.timestamp.type", _S, "CreateTime", _one_of("CreateTime", "LogAppendTime"), "log.message.timestamp.type",
     "Whether a record's timestamp is its producer's or that of its arrival."),
    ("min.cleanable.dirty.ratio", _D, "0.5", _between(0, 1), "log.cleaner.min.cleanable.ratio",
     "The share of not yet compacted bytes from which on compaction is worth while."),
    ("min.compaction.lag.ms", _L, "0", _NEVER_NEGATIVE, "log.cleaner.min.compaction.lag.ms",
     "How long a record stays exempt from compaction."),
    ("min.insync.replicas", _I, "1", _between(1, _INT_MAX), "min.insync.replicas",
     "How many in-sync replicas a write with acks=all needs."),
    ("preallocate", _B, "false", _anything, "log.preallocate",
     "Whether segment files are made at their full size." + _IDLE),
    ("remote.log.copy.disable", _B, "false", _anything, None, "Makes remote storage read-only." + _IDLE),
    ("remote.log.delete.on.disable", _B, "false", _anything, None, "Drops remote data with the feature." + _IDLE),
    ("remote.storage.enable", _B, "false", _no_remote_storage, None,
     "Tiered storage, which this broker does not have: only false is taken."),
    ("retention.bytes", _L, "-1", _MINUS_ONE_UP, "log.retention.bytes",
     "How large a partition may grow before its oldest segments are dropped; -1 for no limit."),
    ("retention.ms", _L, "604800000", _MINUS_ONE_UP, "log.retention.ms",
     "How old records may become before their segments are dropped; -1 for no limit."),
    ("segment.bytes", _I, "1073741824", _between(14, _INT_MAX), "log.segment.bytes",
     "Size at which a segment is closed and the next one begun."),
    ("segment.index.bytes", _I, "10485760", _between(4, _INT_MAX), "log.index.size.max.bytes",
     "Size of an index at which its segment is closed."),
    ("segment.jitter.ms", _L, "0", _NEVER_NEGATIVE, "log.roll.jitter.ms",
     "Spread of segment.ms, so that not all partitions roll at once."),
    ("segment.ms", _L, "604800000", _between(1, FOREVER), "log.roll.ms",
     "Age at which a segment is closed even if it is not full."),
    ("unclean.leader.election.enable", _B, "false", _anything, "unclean.leader.election.enable",
     "Whether a replica that is not in sync may lead as a last resort, losing records."),
)  # fmt: skip

TOPIC_SETTINGS: dict[str, TopicSetting] = {row[0]: TopicSetting(*row) for row in _ROWS}


def validate(name: str, value: str) -> str | None:
    """Why `value` cannot be the setting `name`; None if it can."""
    setting = TOPIC_SETTINGS.get(name)
    if setting is None:
        return f"Unknown topic config name: {name}"
    return invalid_value(setting, value)


def invalid_value(setting: TopicSetting, value: str) -> str | None:
    """Why the setting cannot have this value; None if it can."""
    try:
        if setting.type in _WHOLE and not _WHOLE_NUMBER.fullmatch(value.strip()):
            raise ValueError(f"Not a number of type {setting.type.name}, must be a whole number")
        if setting.type is SettingType.DOUBLE and "_" in value:
            raise ValueError(f"Not a number of type {setting.type.name}, must be a number")
        setting.parse(value)
    except ValueError as error:
        return _invalid(setting.name, value, error)
    return None


def _invalid(name: str, value: str, error: ValueError) -> str:
    return f"Invalid value {value[:_QUOTED]} for configuration {name}: {error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The settings of one topic as values; the fields are Kafka's names with underscores."""

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
    unclean_leader_election_enable: bool = False

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> LogConfig:
        """From a topic's settings by name (defaults for the rest); `ValueError` for one that makes no sense.

        Numbers are read as leniently as an older broker has accepted them: they may be in the metadata log."""
        fields: dict[str, Any] = {}
        for name, text in settings.items():
            setting = TOPIC_SETTINGS.get(name)
            if setting is None:
                raise ValueError(f"Unknown topic config name: {name}")
            try:
                value = setting.parse(text)
            except ValueError as error:
                raise ValueError(_invalid(name, text, error)) from None
            field = name.replace(".", "_")
            if name == "cleanup.policy":
                fields["compact"], fields["delete"] = "compact" in value, "delete" in value
            elif field in cls.__dataclass_fields__:
                fields[field] = value
        return cls(**fields)
