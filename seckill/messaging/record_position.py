"""Codec: the position of one record in Kafka: topic, partition, offset. Its text form is `topic/partition/offset`."""

from __future__ import annotations

from typing import NamedTuple


class RecordPosition(NamedTuple):
    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"

    @classmethod
    def parse(cls, text: str) -> RecordPosition:
        topic, partition, offset = text.rsplit("/", 2)
        return cls(topic, int(partition), int(offset))
