"""Codec and store: one offset per partition, in Kafka's text format. Each file has one meaning.

    0                     version
    2                     number of lines that follow
    orders 0 1742         topic, partition, offset
    orders 1 1698

Own rule: a checkpoint is a hint with a safe default, 0. A damaged file counts as absent; no part of it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mqcore.disk.port import Disk
from mqcore.identity import TopicPartition

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"  # everything below it is durable
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"  # everything below it is compacted
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"  # everything below it is committed
_VERSION: Final = "0"

Offsets = Mapping[TopicPartition, int]


def encode_offsets(offsets: Offsets) -> bytes:
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    return "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode()


def decode_offsets(content: bytes) -> dict[TopicPartition, int] | None:
    """None if the content is damaged in any way."""
    offsets: dict[TopicPartition, int] = {}
    try:
        version, count, *lines = content.decode("utf-8").splitlines()
        for line in lines:
            topic, partition, offset = line.split(" ")
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        if version != _VERSION or int(count) != len(lines) or min(offsets.values(), default=0) < 0:
            return None
    except ValueError:
        return None
    return offsets


class CheckpointFile:
    """A checkpoint file in the root of the data folder."""

    def __init__(self, disk: Disk, name: str) -> None:
        self._disk = disk
        self._name = name
        self._written: bytes | None = None

    def read(self) -> dict[TopicPartition, int]:
        """Empty if the file is absent or damaged."""
        try:
            return decode_offsets(self._disk.read_whole(self._name)) or {}
        except FileNotFoundError:
            return {}

    def write(self, offsets: Offsets) -> None:
        """Write atomically and durably. Does nothing if the content has not changed since the last write."""
        content = encode_offsets(offsets)
        if content != self._written:
            self._disk.replace(self._name, content)
            self._written = content
