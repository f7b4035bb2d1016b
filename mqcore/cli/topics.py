"""Shell: `mqcore topics` shows each partition: its leader, its replicas, and how far each of them is.

A broker that cannot be reached does not stop the others from being shown, and is named below the table.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Final, NamedTuple, TextIO

from mqcore.cli.client import Client, ClientError, table

METADATA: Final = (3, 12)
DESCRIBE_LOG_DIRS: Final = (35, 2)

WATCH_SECONDS: Final = 1.0
CLEAR_SCREEN: Final = "\x1b[H\x1b[J"
UNKNOWN: Final = "?"
NOT_ACTIVE: Final = "not active: it does not run, cannot reach the controller, or is still starting"

Partition = tuple[str, int]


class Replica(NamedTuple):
    size_bytes: int
    end: int
    high_watermark: int


Replicas = dict[Partition, Replica]


def show(bootstrap: str, watch: bool, out: TextIO | None = None) -> int:
    out = out or sys.stdout
    try:
        while True:
            text = _page(bootstrap, keep_asking=watch)
            print(f"{CLEAR_SCREEN if watch and out.isatty() else ''}{text}", file=out, flush=True)
            if not watch:
                return 0
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return 0


def _page(bootstrap: str, *, keep_asking: bool) -> str:
    """A watch goes on while no broker can be reached, because it is there to show how a broker comes back."""
    try:
        with Client.to(bootstrap) as client:
            metadata = client.request(*METADATA, topics=None, allow_auto_topic_creation=False)
    except ClientError as fault:
        if keep_asking:
            return str(fault)
        raise
    brokers: dict[int, Replicas] = {}
    notes: dict[int, str] = {}
    for each in metadata.brokers:
        try:
            brokers[each.node_id] = _replicas(each)
        except ClientError as fault:
            notes[each.node_id] = str(fault)
    rows: list[tuple[str, ...]] = [("partition", "leader", "epoch", "ISR", "replicas: log end, high watermark, size")]
    for topic in sorted(metadata.topics, key=lambda topic: str(topic.name)):
        for partition in sorted(topic.partitions, key=lambda each: int(each.partition_index)):
            rows.append(_row((topic.name, partition.partition_index), partition, brokers))
            notes |= dict.fromkeys(set(partition.replica_nodes) - brokers.keys() - notes.keys(), NOT_ACTIVE)
    return "\n".join([table(rows), *(f"broker {node}: {note}" for node, note in sorted(notes.items()))])


def _row(name: Partition, partition: Any, brokers: dict[int, Replicas]) -> tuple[str, ...]:
    return (
        f"{name[0]}-{name[1]}",
        str(partition.leader_id) if partition.leader_id >= 0 else "none",
        str(partition.leader_epoch),
        ",".join(map(str, partition.isr_nodes)),
        " | ".join(f"{node}: {_text(brokers.get(node, {}).get(name))}" for node in partition.replica_nodes),
    )


def _text(replica: Replica | None) -> str:
    return UNKNOWN if replica is None else f"{replica.end}, {replica.high_watermark}, {_size(replica.size_bytes)}"


def _size(size: int) -> str:
    for unit in ("B", "KB", "MB"):
        if size < 10_000:
            return f"{size} {unit}"
        size //= 1000
    return f"{size} GB"


def _replicas(broker: Any) -> Replicas:
    """Raises `ClientError` if the broker does not answer."""
    with Client(broker.host, broker.port) as client:
        answer = client.request(*DESCRIBE_LOG_DIRS, topics=None, include_offsets=True)
    return {
        (topic.name, each.partition_index): Replica(each.partition_size, each.log_end_offset, each.high_watermark)
        for folder in answer.results
        for topic in folder.topics
        for each in topic.partitions
    }
