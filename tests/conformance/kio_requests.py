"""Requests that several tests with kio send."""

from __future__ import annotations

import uuid
from typing import Any

from kio.schema.errors import ErrorCode

from tests.conformance.line import (
    CREATE_TOPICS,
    FETCH,
    PRODUCE,
    Line,
)


def create(line: Line, topic: str, partitions: int = 1, **configs: str) -> uuid.UUID:
    wanted = {
        "name": topic,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()],
    }
    (created,) = line.ask(CREATE_TOPICS, 7, topics=[wanted], timeout=10_000).topics
    assert created.error_code is ErrorCode.none, created
    assert created.configs is not None
    return uuid.UUID(bytes=created.topic_id.bytes)


def produced(topic: str, records: bytes, acks: int = -1) -> dict[str, Any]:
    partition = {"index": 0, "records": records}
    return {"acks": acks, "timeout": 10_000, "topic_data": [{"name": topic, "partition_data": [partition]}]}


def produce(line: Line, topic: str, records: bytes) -> Any:
    return line.ask(PRODUCE, 11, **produced(topic, records)).responses[0].partition_responses[0]


def fetched(topic: str, offset: int, **how: Any) -> dict[str, Any]:
    limits = {
        "max_wait": how.get("max_wait", 0),
        "min_bytes": how.get("min_bytes", 1),
        "max_bytes": how.get("max_bytes", 1 << 20),
    }
    partition = {
        "partition": how.get("partition", 0),
        "fetch_offset": offset,
        "current_leader_epoch": -1,
        "last_fetched_epoch": -1,
        "partition_max_bytes": how.get("partition_max_bytes", 1 << 20),
    }
    return {"session_epoch": -1, **limits, "topics": [{"topic": topic, "partitions": [partition]}]}


def fetch(line: Line, topic: str, offset: int, **how: Any) -> Any:
    return line.ask(FETCH, 12, **fetched(topic, offset, **how)).responses[0].partitions[0]
