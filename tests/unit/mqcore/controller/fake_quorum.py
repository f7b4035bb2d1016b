"""A quorum whose elections and commits happen when the test says so, over a real log.

It keeps the promises of the real one: `append_records` returns the end that the records will have, records that come
while a batch is not durable are collected, and waiting callers are told when the leadership ends.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from uuid import UUID

from mqcore.coordination.journal import LeadershipLost
from mqcore.disk.memory import MemoryDisk
from mqcore.identity import METADATA_TOPIC, BrokerId, Offset, TopicPartition
from mqcore.log.log import Log
from mqcore.log.topic_config import LogConfig
from mqcore.partitions.producers import Producers
from mqcore.partitions.waiting_requests import CommitQueue, NotLeader, OnCommit, StorageFault, Watchers
from mqcore.raft.messages import VoterKey
from mqcore.wire.batches import read_header, read_headers
from mqcore.wire.records import Record, build_batch

ME, OTHER = BrokerId(1), BrokerId(2)
CONTROL = 1 << 5


class FakeQuorum:
    name = TopicPartition(METADATA_TOPIC, 0)
    snapshot = None

    def __init__(self, me: BrokerId = ME) -> None:
        self.log = Log.open(
            MemoryDisk(), str(self.name), LogConfig(), now_ms=0, clean=True, recovery_point=0, observer=Producers()
        )
        self.me = VoterKey(me, UUID(int=me))
        self.watchers = Watchers()
        self.leader: BrokerId | None = None
        self.epoch = 0
        self.is_active = False
        self.high_watermark = Offset(0)
        self.offline_reason: str | None = None
        self.holds = False
        self.resigned = 0
        self._collected: list[list[Record]] = []
        self._waiting = CommitQueue()

    # what the others use

    def append_records(self, records: Sequence[Record], limit_bytes: int = 1 << 20) -> Offset:
        if self.offline_reason is not None:
            raise OSError(errno.EIO, self.offline_reason)
        if self.leader != self.me.id:
            raise LeadershipLost("this node does not lead the quorum")
        self._collected.append(list(records))
        end = Offset(self.log.end_offset + sum(map(len, self._collected)))
        if not self.holds:
            self.commit()
        elif self.log.end_offset == self.high_watermark:
            self._write_next()  # while a batch is not committed, further ones are only collected
        return end

    def when_committed(self, end: Offset, on_commit: OnCommit) -> None:
        self._waiting.add(end, on_commit)
        self._waiting.release(self.high_watermark)

    def resign(self) -> None:
        self.resigned += 1
        self.lose()

    def go_offline(self, reason: str) -> None:
        self.offline_reason = reason
        self._waiting.fail(StorageFault(reason))
        self.lose()

    # what the test does

    def elect(self, node: BrokerId = ME) -> None:
        """A leader with a record of its epoch that is committed."""
        self.lose()
        self.epoch += 1
        self.leader = node
        if node == self.me.id:
            self.append_own_record()
            self.is_active = True
        self.watchers.notify()

    def append_own_record(self) -> None:
        """A record of the quorum itself: a new leader, or an adopted voter. It is committed at once."""
        assert not self._collected
        self._write([Record(0, 0, None, b"\0\0\0\0")], CONTROL)
        self.high_watermark = Offset(self.log.end_offset)
        self.watchers.notify()

    def copy(self, leader: FakeQuorum) -> None:
        """Fetch what the leader has committed."""
        found = leader.log.read(self.log.end_offset, 1 << 20, limit=leader.high_watermark)
        if found is not None:
            data = memoryview(bytearray(found.read()))
            self.log.append(data, tuple(header for _, header in read_headers(data)), 0)
        self._advance()

    def lose(self) -> None:
        """What is not committed is cut off, as the next leader would do."""
        self.leader, self.is_active = None, False
        self._collected.clear()
        self.watchers.notify()
        self._waiting.fail(NotLeader("the leadership ended"))
        self.log.truncate_to(self.high_watermark)

    def commit(self) -> None:
        self._advance()
        while self._collected:
            self._write_next()
            self._advance()

    def _advance(self) -> None:
        self.high_watermark = Offset(self.log.end_offset)
        self.watchers.notify()
        self._waiting.release(self.high_watermark)

    def _write_next(self) -> None:
        self._write(self._collected.pop(0), 0)

    def _write(self, records: Sequence[Record], attributes: int) -> None:
        base = self.log.end_offset
        placed = [record._replace(offset=base + index) for index, record in enumerate(records)]
        batch = memoryview(build_batch(placed, leader_epoch=self.epoch, attributes=attributes))
        self.log.append(batch, (read_header(batch),), 0)
