"""Helpers for tests of recovery: a disk with given bytes in a segment, and batches to put there."""

from __future__ import annotations

from mqcore.disk.memory import MemoryDisk
from mqcore.disk.port import Buffer
from mqcore.log.topic_config import LogConfig
from tests.unit.mqcore.log.helpers import DIRECTORY, LastSequences, append, batch, open_log, place, stored

SEGMENT = f"{DIRECTORY}/00000000000000000000.log"


CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100)


def disk_with(*contents: Buffer) -> MemoryDisk:
    """A disk with a partition whose only segment has this content."""
    disk = MemoryDisk()
    disk.make_directory(DIRECTORY)
    disk.open(SEGMENT, create=True).append(contents)
    return disk


def batches(count: int, size: int = 20) -> list[bytes]:
    """Batches of two records each, with consecutive offsets."""
    made, offset = [], 0
    for number in range(count):
        data = batch([bytes([number]) * size, b"x"], producer=number % 2, sequence=offset)
        made.append(bytes(data[:0]) + bytes(placed_at(data, offset)))
        offset += 2
    return made


def placed_at(data: bytearray, offset: int) -> bytearray:
    place(data, offset)
    return data


def flipped(data: bytes, position: int, bit: int = 0) -> bytes:
    return data[:position] + bytes([data[position] ^ (1 << bit)]) + data[position + 1 :]


def filled(disk: MemoryDisk, *, close: bool) -> tuple[list[bytes], LastSequences]:
    observer = LastSequences()
    log = open_log(disk, CONFIG, observer=observer)
    for number in range(25):
        data = batch([b"v" * 50], producer=number % 3, sequence=number, timestamp=1000 + number)
        append(log, data, epoch=number // 10)
    found = stored(log)
    if close:
        log.close()
    return found, observer
