"""Store: the metadata log of one node, which continues its newest snapshot.

Own rules:
* A snapshot is durable before the log below its end goes.
* The voter set is the newest one in the log, committed or not; cutting the log brings the one before it back.
* A log with valid batches behind an invalid one is cut, and the node is suspect (`suspicion`). The only voter has no
  other node to fetch from, so its log is not cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from mqcore.disk.port import Buffer, Disk
from mqcore.identity import METADATA_TOPIC, BrokerId, LeaderEpoch, TopicPartition
from mqcore.log.epochs import EpochEnd
from mqcore.log.errors import CorruptLog, LogFault
from mqcore.log.log import Log
from mqcore.log.topic_config import LogConfig
from mqcore.raft import control_records
from mqcore.raft.messages import SnapshotId, VoterKey, VoterSet
from mqcore.raft.snapshots import Snapshot, Snapshots
from mqcore.raft.suspicion import Suspicion
from mqcore.wire.batches import BadBatch, BatchHeader, check_crc, read_header, read_headers
from mqcore.wire.records import OWN_BATCH_BYTES_MAX, Record, build_batch

FOLDER: Final = TopicPartition(METADATA_TOPIC, 0)
FETCH_BYTES_MAX: Final = 1 << 20

LOG_CONFIG: Final = LogConfig(retention_ms=-1, file_delete_delay_ms=0)


class QuorumLogGap(LogFault):
    """Records between the newest snapshot and the start of the log are missing."""


class QuorumLog:
    """A `LogView`, and the changes that a `Ready` asks for. Readers of committed records take them from `log`."""

    def __init__(
        self,
        disk: Disk,
        now_ms: int,
        config: LogConfig = LOG_CONFIG,
        *,
        is_clean: bool = False,
        is_only_voter: bool = False,
    ) -> None:
        self._disk = disk
        self._directory = str(FOLDER)
        disk.make_directory(self._directory)
        self.snapshots = Snapshots(disk, self._directory)
        newest = self.snapshots.open_newest()
        self.snapshot = None if newest is None else newest.id
        self._suspicion = Suspicion(disk, FOLDER)
        try:
            self.log = self._open(config, now_ms, is_clean=is_clean)
        except CorruptLog:
            if is_only_voter:
                raise
            self._suspicion.cut()
            self.log = self._open(config, now_ms, is_clean=False)
        self.bytes_since_snapshot = self.log.size_bytes
        self._voter_sets: list[tuple[int, VoterSet]] = []
        self._continue_snapshot(newest)
        self._note_voters(self._batches(self.start))
        self.sync()

    # ── the view ─────────────────────────────────────────────────────────────────────────────────

    @property
    def start(self) -> int:
        return self.log.start_offset

    @property
    def end(self) -> int:
        return self.log.end_offset

    @property
    def durable(self) -> int:
        """The snapshot counts: a leader may commit by its followers, and snapshot, what it has not synced yet."""
        return max(self.log.flushed_offset, self.start)

    @property
    def last_epoch(self) -> int:
        return max(self.log.epochs.last_epoch, -1 if self.snapshot is None else self.snapshot.epoch)

    @property
    def suspect_to(self) -> int:
        return self._suspicion.end

    @property
    def voters(self) -> VoterSet:
        return self._voter_sets[-1][1] if self._voter_sets else {}

    @property
    def voters_offset(self) -> int:
        return self._voter_sets[-1][0] if self._voter_sets else -1

    def end_of(self, epoch: int) -> EpochEnd:
        epochs = self.log.epochs
        if not epochs.starts and self.snapshot is not None and 0 <= epoch <= self.snapshot.epoch:
            return EpochEnd(epoch, self.start)
        return epochs.end_offset_for(epoch)

    def epoch_at(self, offset: int) -> LeaderEpoch:
        if self.snapshot is not None and offset < self.start:
            return self.snapshot.epoch
        return LeaderEpoch(self.log.epochs.epoch_at(offset))

    # ── changes ──────────────────────────────────────────────────────────────────────────────────

    def append_records(
        self, records: Sequence[Record], epoch: LeaderEpoch, now_ms: int, limit_bytes: int = OWN_BATCH_BYTES_MAX
    ) -> int:
        """Append one batch as the leader and return the new end. Raises `BatchTooLarge` before writing."""
        placed = [record._replace(offset=self.end + index) for index, record in enumerate(records)]
        return self._append(build_batch(placed, leader_epoch=epoch, limit_bytes=limit_bytes), now_ms)

    def append_leader_change(
        self, leader: BrokerId, granted: Iterable[VoterKey], epoch: LeaderEpoch, now_ms: int
    ) -> None:
        value = control_records.leader_change(leader, self.voters.values(), granted)
        self._append(
            control_records.control_batch(control_records.LEADER_CHANGE, value, self.end, epoch, now_ms), now_ms
        )

    def append_voters(self, voters: VoterSet, epoch: LeaderEpoch, now_ms: int) -> None:
        value = control_records.encode_voters(voters)
        self._append(control_records.control_batch(control_records.VOTERS, value, self.end, epoch, now_ms), now_ms)

    def append_fetched(self, records: bytes, now_ms: int) -> None:
        """Append batches as the leader has them. Raises `BadBatch` before writing if they do not continue this log."""
        view, end = memoryview(records), self.end
        headers: list[BatchHeader] = []
        size = 0
        for position, header in read_headers(view):
            check_crc(view, header, position)
            if header.base_offset != end:
                raise BadBatch(f"a fetched batch begins at {header.base_offset}, expected {end}")
            headers.append(header)
            end, size = header.next_offset, position + header.size
        if headers:
            self.log.append(view[:size], headers, now_ms)
            self.bytes_since_snapshot += size
            self._note_voters([(header, view) for header, view in _split(view[:size])])

    def _append(self, batch: bytearray, now_ms: int) -> int:
        header = read_header(batch)
        self.log.append(batch, [header], now_ms)
        self.bytes_since_snapshot += len(batch)
        self._note_voters([(header, memoryview(batch))])
        return self.end

    def sync(self) -> None:
        """Block until everything appended before the call is durable. May run on a thread."""
        self.log.sync()
        self.end_suspicion()

    def end_suspicion(self) -> None:
        """Call it on the event loop after a sync of `log`: the node may have its former end back."""
        self._suspicion.end_at(self.durable)

    def truncate(self, end: int) -> None:
        self.log.truncate_to(end)
        self._voter_sets = [pair for pair in self._voter_sets if pair[0] < end]

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def read(self, offset: int, bytes_max: int = FETCH_BYTES_MAX) -> bytes:
        """Complete batches from `offset` on, at least one if there is one."""
        found = self.log.read(offset, bytes_max, limit=self.end)
        return b"" if found is None else bytes(found.read())

    def headers(self, offset: int) -> Iterator[BatchHeader]:
        for header, _ in self._batches(offset):
            yield header

    def _batches(self, offset: int) -> Iterator[tuple[BatchHeader, Buffer]]:
        while offset < self.end:
            for header, batch in _split(memoryview(self.read(offset))):
                yield header, batch
                offset = header.next_offset

    # ── snapshots ────────────────────────────────────────────────────────────────────────────────

    def write_snapshot(self, end: int, records: Sequence[Record], now_ms: int) -> None:
        """Replace the log below `end`, which is committed, with `records`."""
        snapshot, voters = self.snapshot_at(end)
        self.snapshots.write(Snapshot(snapshot, voters, records), now_ms)
        self.drop_prefix(snapshot, now_ms)

    def snapshot_at(self, end: int) -> tuple[SnapshotId, VoterSet]:
        voters = next((voters for offset, voters in reversed(self._voter_sets) if offset < end), {})
        return SnapshotId(end, self.epoch_at(end - 1)), voters

    def store_part(self, snapshot: SnapshotId, position: int, data: bytes, *, is_last: bool) -> None:
        """Store a part of the leader's snapshot. The last one replaces the whole log."""
        self.snapshots.write_part(snapshot, position, data)
        if is_last:
            content = self.snapshots.finish(snapshot)
            self.log.truncate_fully(snapshot.end)
            self.bytes_since_snapshot = 0
            self._begin_with(content)

    def drop_prefix(self, snapshot: SnapshotId, now_ms: int) -> None:
        """Remove what a durable snapshot has replaced."""
        self.snapshot = snapshot
        self.bytes_since_snapshot = 0
        self.log.advance_start(snapshot.end)
        self.log.roll(now_ms)
        self.log.apply_retention(now_ms, limit=self.end)
        self.snapshots.remove_before(snapshot)

    def _begin_with(self, content: Snapshot) -> None:
        self.snapshot = content.id
        self._voter_sets = [(content.id.end - 1, content.voters)]
        self.snapshots.remove_before(content.id)

    def _continue_snapshot(self, newest: Snapshot | None) -> None:
        """A crash may have come between a snapshot and the change of the log that follows it."""
        log, start = self.log, self.log.start_offset
        if start > (0 if newest is None else newest.id.end):
            raise QuorumLogGap(
                f"{self._directory} begins at offset {start}, but no snapshot holds what is below",
                self._directory,
                "a snapshot is missing",
            )
        if newest is None:
            return
        end, epoch = newest.id
        if log.end_offset < end or (start < end and log.epochs.epoch_at(end - 1) != epoch):
            log.truncate_fully(end)
        log.advance_start(end)
        self._begin_with(newest)

    # ── voters ───────────────────────────────────────────────────────────────────────────────────

    def _note_voters(self, batches: Iterable[tuple[BatchHeader, Buffer]]) -> None:
        for header, batch in batches:
            if header.is_control:
                check_crc(batch, header)  # a clean start has verified only the end of the log
                for record in control_records.read_control_records(batch, header):
                    if record.type == control_records.VOTERS:
                        self._voter_sets.append((record.offset, control_records.decode_voters(record.value)))

    # ── opening ──────────────────────────────────────────────────────────────────────────────────

    def _open(self, config: LogConfig, now_ms: int, *, is_clean: bool) -> Log:
        return Log.open(
            self._disk,
            self._directory,
            config,
            now_ms=now_ms,
            clean=is_clean,
            recovery_point=0,
            observer=_NoProducers(),
        )


def _split(view: memoryview) -> Iterator[tuple[BatchHeader, Buffer]]:
    for position, header in read_headers(view):
        yield header, view[position : position + header.size]


class _NoProducers:
    """The metadata log has no producers whose state its batches could change."""

    def observe(self, header: BatchHeader) -> None:
        pass

    def snapshot(self) -> bytes:
        return b""

    def restore(self, snapshot: bytes) -> bool:
        return True

    def clear(self) -> None:
        pass
