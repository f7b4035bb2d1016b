"""Shell: `mqcore topics` shows each partition: its leader, its replicas, and how far each of them is.

A broker that cannot be reached does not stop the others from being shown.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Final, NamedTuple, TextIO

from mqcore.cli.client import Client, ClientError, check, table

LIST_OFFSETS: Final = (2, 6)
METADATA: Final = (3, 12)
DESCRIBE_LOG_DIRS: Final = (35, 2)

LATEST: Final = -1
WATCH_SECONDS: Final = 1.0
CLEAR_SCREEN: Final = "\x1b[H\x1b[J"
UNKNOWN: Final = "?"

Partition = tuple[str, int]


class Replica(NamedTuple):
    size_bytes: int
    lag: int


class Broker(NamedTuple):
    """What one broker says: the high watermarks of what it leads, and its replicas."""

    watermarks: dict[Partition, int]
    replicas: dict[Partition, Replica]


def show(bootstrap: str, watch: bool, out: TextIO | None = None) -> int:
    out = out or sys.stdout
    try:
        while True:
            text = table(_rows(bootstrap))
            print(f"{CLEAR_SCREEN if watch and out.isatty() else ''}{text}", file=out, flush=True)
            if not watch:
                return 0
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return 0


def _rows(bootstrap: str) -> list[tuple[str, ...]]:
    with Client.to(bootstrap) as client:
        metadata = client.request(*METADATA, topics=None, allow_auto_topic_creation=False)
    brokers = {each.node_id: _ask(each, metadata) for each in metadata.brokers}
    rows: list[tuple[str, ...]] = [("partition", "leader", "epoch", "ISR", "high watermark", "replicas: lag, size")]
    for topic in sorted(metadata.topics, key=lambda topic: str(topic.name)):
        for each in sorted(topic.partitions, key=lambda each: int(each.partition_index)):
            rows.append(_row((topic.name, each.partition_index), each, brokers))
    return rows


def _row(name: Partition, partition: Any, brokers: dict[int, Broker | None]) -> tuple[str, ...]:
    leader = brokers.get(partition.leader_id)
    watermark = None if leader is None else leader.watermarks.get(name)
    return (
        f"{name[0]}-{name[1]}",
        str(partition.leader_id) if partition.leader_id >= 0 else "none",
        str(partition.leader_epoch),
        ",".join(map(str, partition.isr_nodes)),
        UNKNOWN if watermark is None else str(watermark),
        " | ".join(f"{node}: {_replica(name, brokers.get(node))}" for node in partition.replica_nodes),
    )


def _replica(name: Partition, broker: Broker | None) -> str:
    found = None if broker is None else broker.replicas.get(name)
    return UNKNOWN if found is None else f"{found.lag}, {_size(found.size_bytes)}"


def _size(size: int) -> str:
    for unit in ("B", "KB", "MB"):
        if size < 10_000:
            return f"{size} {unit}"
        size //= 1000
    return f"{size} GB"


def _ask(broker: Any, metadata: Any) -> Broker | None:
    """None if the broker does not answer."""
    try:
        with Client(broker.host, broker.port) as client:
            return Broker(_watermarks(client, broker.node_id, metadata), _replicas(client))
    except ClientError:
        return None


def _watermarks(client: Client, node: int, metadata: Any) -> dict[Partition, int]:
    topics = [
        {
            "name": topic.name,
            "partitions": [
                {"partition_index": each.partition_index, "timestamp": LATEST}
                for each in topic.partitions
                if each.leader_id == node
            ],
        }
        for topic in metadata.topics
    ]
    answer = client.request(*LIST_OFFSETS, replica_id=-1, isolation_level=0, topics=topics)
    return {
        (topic.name, each.partition_index): each.offset
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code
    }


def _replicas(client: Client) -> dict[Partition, Replica]:
    answer = client.request(*DESCRIBE_LOG_DIRS, topics=None)
    for folder in answer.results:
        check("the log directory cannot be described", folder.error_code)
    return {
        (topic.name, each.partition_index): Replica(each.partition_size, each.offset_lag)
        for folder in answer.results
        for topic in folder.topics
        for each in topic.partitions
    }
