"""A quorum of one on a disk in memory. Requested syncs run when a test calls `sync`."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from mqcore.controller import records
from mqcore.controller.facts import MetadataFact
from mqcore.coordination.partition_journal import replay
from mqcore.disk.memory import MemoryDisk
from mqcore.host import Clock
from mqcore.identity import BrokerId
from mqcore.log.topic_config import LogConfig
from mqcore.raft.messages import VoterKey
from mqcore.raft.quorum import Quorum
from mqcore.raft.quorum_log import LOG_CONFIG
from mqcore.raft.ready import QuorumRules
from tests.unit.mqcore.inline_threads import InlineThreads

ME = VoterKey(BrokerId(1), UUID(int=1))


class LoneQuorum:
    def __init__(self, disk: MemoryDisk, clock: Clock, log_config: LogConfig = LOG_CONFIG) -> None:
        disk.make_directory("")
        self.requested: list[Quorum] = []
        self.failures: list[Exception] = []
        self.quorum = Quorum(
            ME,
            QuorumRules(frozenset({ME.id})),
            disk,
            clock,
            InlineThreads(),
            lambda: 0.5,
            lambda node, request, on_outcome: None,
            self.requested.append,
            self.failures.append,
            log_config=log_config,
        )

    def lead(self) -> None:
        self.quorum.start()
        self.sync()

    def sync(self) -> None:
        while self.requested:
            self.requested.pop().log.sync()
            self.quorum.on_synced()


def committed_facts(quorum: Quorum) -> Iterator[MetadataFact]:
    """Those in the log."""
    for record in replay(quorum, quorum.log.start_offset, quorum.high_watermark):
        if record.value is not None:
            yield records.decode(record.value)
