"""Store: opens the log of one partition. It uses nothing that other partitions use, so it may run on a thread."""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from uuid import UUID

from mqcore.disk.port import Disk
from mqcore.identity import Millis, TopicPartition
from mqcore.log.log import Log
from mqcore.log.recovery import RecoveryReport
from mqcore.log.topic_config import LogConfig
from mqcore.partitions.producers import Producers

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Opening:
    """What is known about a partition before its log is opened. The offsets are those of the checkpoints."""

    disk: Disk
    name: TopicPartition
    topic_id: UUID
    config: LogConfig
    now_ms: Millis
    is_clean: bool
    recovery_point: int
    log_start: int
    high_watermark: int
    producers: Producers

    def run(self) -> Log:
        opened = Log.open(
            self.disk,
            str(self.name),
            self.config,
            now_ms=self.now_ms,
            clean=self.is_clean,
            recovery_point=self.recovery_point,
            start_offset=self.log_start,
            observer=self.producers,
        )
        if self.config.flush_messages == 1 and opened.flushed_offset < opened.end_offset:
            opened.sync()  # after a crash, data in the page cache must be durable before readers see it
        return opened


def log_recovery(directory: str, recovery: RecoveryReport) -> None:
    """One line for a log that was not closed cleanly; a warning if data was cut or is missing."""
    if not recovery.clean:
        values = ((field.name, getattr(recovery, field.name)) for field in fields(recovery))
        found = {name: value for name, value in values if value and name != "clean"}
        if not found:
            return  # the log is new or was empty
        level = logging.WARNING if recovery.cut_bytes or recovery.missing_offsets else logging.INFO
        log.log(level, "log recovered", extra={"partition": directory, **found})
