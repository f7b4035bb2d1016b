"""Store: snapshots of the metadata, one file `<end, 20 digits>-<epoch, 10 digits>.checkpoint` each.

A snapshot is a sequence of record batches: a header, the voter set, the records of the image, a footer. Without its
footer it is incomplete.

Own rules:
* A file has its final name only if it is complete and durable, so the log below `end` may go once the name is there.
* A start uses the newest valid snapshot and removes parts of unfinished ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from mqcore.disk.port import Disk
from mqcore.identity import LeaderEpoch
from mqcore.raft import control_records
from mqcore.raft.messages import SnapshotId, VoterSet
from mqcore.wire.batches import BadBatch, check_crc, read_headers
from mqcore.wire.records import Record, build_batch, read_records

SUFFIX: Final = ".checkpoint"
PART_SUFFIX: Final = ".checkpoint.part"
RECORDS_PER_BATCH: Final = 500

_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class DamagedSnapshot(Exception):
    """The snapshot at `path` cannot be read, because of `reason`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class Snapshot(NamedTuple):
    id: SnapshotId
    voters: VoterSet
    records: Sequence[Record]


def snapshot_name(snapshot: SnapshotId) -> str:
    return f"{snapshot.end:020}-{snapshot.epoch:010}{SUFFIX}"


def encode_snapshot(snapshot: Snapshot, now_ms: int) -> bytes:
    """Offsets count from 0 within the file, as in Kafka's."""
    epoch, out = snapshot.id.epoch, bytearray()

    def add_control(record_type: int, value: bytes, offset: int) -> None:
        out.extend(control_records.control_batch(record_type, value, offset, epoch, now_ms))

    add_control(control_records.SNAPSHOT_HEADER, control_records.snapshot_header(now_ms), 0)
    add_control(control_records.VOTERS, control_records.encode_voters(snapshot.voters), 1)
    offset = 2
    for first in range(0, len(snapshot.records), RECORDS_PER_BATCH):
        chosen = snapshot.records[first : first + RECORDS_PER_BATCH]
        placed = [record._replace(offset=offset + index) for index, record in enumerate(chosen)]
        out += build_batch(placed, leader_epoch=epoch)
        offset += len(placed)
    add_control(control_records.SNAPSHOT_FOOTER, control_records.snapshot_footer(), offset)
    return bytes(out)


def decode_snapshot(snapshot: SnapshotId, content: bytes) -> Snapshot:
    """Raises `BadBatch` if the content is damaged or ends before its footer."""
    view, end = memoryview(content), 0
    types: list[int] = []
    records: list[Record] = []
    voters: VoterSet = {}
    for position, header in read_headers(view):
        end = position + header.size
        batch = view[position:end]
        check_crc(batch, header)
        if not header.is_control:
            records += read_records(batch, header)
            continue
        for record in control_records.read_control_records(batch, header):
            types.append(record.type)
            if record.type == control_records.VOTERS:
                voters = control_records.decode_voters(record.value)
    is_complete = types[:1] == [control_records.SNAPSHOT_HEADER] and types[-1:] == [control_records.SNAPSHOT_FOOTER]
    if not is_complete or end != len(content):
        raise BadBatch("the file does not begin with a snapshot header and end with a footer")
    return Snapshot(snapshot, voters, records)


class Snapshots:
    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory

    def ids(self) -> list[SnapshotId]:
        """Oldest first."""
        found = (_NAME.fullmatch(name) for name in self._disk.names(self._directory))
        return sorted(SnapshotId(int(match[1]), LeaderEpoch(int(match[2]))) for match in found if match)

    def open_newest(self) -> Snapshot | None:
        """The newest valid snapshot, None if there is none. Removes parts, and what is newer but damaged."""
        for name in self._disk.names(self._directory):
            if name.endswith((PART_SUFFIX, f"{SUFFIX}.tmp")):
                self._disk.remove(f"{self._directory}/{name}")
        for snapshot in reversed(self.ids()):
            try:
                return self.read(snapshot)
            except DamagedSnapshot:
                self._disk.remove(self._path(snapshot))
        return None

    def read(self, snapshot: SnapshotId) -> Snapshot:
        try:
            return decode_snapshot(snapshot, self._disk.read_whole(self._path(snapshot)))
        except BadBatch as error:
            raise DamagedSnapshot(self._path(snapshot), str(error)) from error

    def write(self, snapshot: Snapshot, now_ms: int) -> None:
        """Durable when it returns."""
        self._disk.replace(self._path(snapshot.id), encode_snapshot(snapshot, now_ms))

    def remove_before(self, snapshot: SnapshotId) -> None:
        for older in self.ids():
            if older < snapshot:
                self._disk.remove(self._path(older))

    # ── transfer ─────────────────────────────────────────────────────────────────────────────────

    def read_part(self, snapshot: SnapshotId, position: int, bytes_max: int) -> tuple[bytes, int]:
        """Bytes from `position` on, and the size of the whole file."""
        file = self._disk.open(self._path(snapshot))
        try:
            return file.read(position, bytes_max), file.size
        finally:
            file.close()

    def write_part(self, snapshot: SnapshotId, position: int, data: bytes) -> None:
        file = self._disk.open(self._part_path(snapshot), create=True)
        try:
            file.truncate(position)
            file.append([data])
        finally:
            file.close()

    def finish(self, snapshot: SnapshotId) -> Snapshot:
        """Give the complete file its name. Durable when it returns; raises `DamagedSnapshot`."""
        path = self._part_path(snapshot)
        try:
            content = decode_snapshot(snapshot, self._disk.read_whole(path))
        except BadBatch as error:
            raise DamagedSnapshot(path, str(error)) from error
        file = self._disk.open(path)
        try:
            file.sync()
        finally:
            file.close()
        self._disk.rename(path, self._path(snapshot))
        self._disk.sync_directory(self._directory)
        return content

    def _path(self, snapshot: SnapshotId) -> str:
        return f"{self._directory}/{snapshot_name(snapshot)}"

    def _part_path(self, snapshot: SnapshotId) -> str:
        return self._path(snapshot).removesuffix(SUFFIX) + PART_SUFFIX


def founding_snapshot(founder: VoterSet, records: Iterable[Record] = ()) -> Snapshot:
    """What `format` writes on the founder: the cluster begins with one voter, and the others join it."""
    return Snapshot(SnapshotId(0, LeaderEpoch(0)), founder, list(records))
