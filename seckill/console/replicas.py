"""Shell: the replicas of the sale's topics: the leader, the in-sync replicas, and where each broker's copy ends.

Clients learn only the high watermark of a partition. ListOffsets with the replica id of a debugger (−2) tells the end
of the log of whichever broker is asked, in Kafka's brokers and in ours.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from kafka import KafkaAdminClient

from seckill.messaging.topics import TOPICS

REQUEST_TIMEOUT_MS = 2000
LIST_OFFSETS, VERSION = 2, 1
DEBUGGER, LATEST = -2, -1
CLIENT_ID = b"console"

Place = tuple[str, int]


class PartitionReplicas(NamedTuple):
    """`ends`: the log end of each broker's copy; None if the broker does not answer."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    in_sync: list[int]
    ends: dict[int, int | None]


def connect_admin(bootstrap_servers: str) -> Any:
    return KafkaAdminClient(
        bootstrap_servers=bootstrap_servers, client_id="console", request_timeout_ms=REQUEST_TIMEOUT_MS
    )


def read_replicas(client: Any, topics: Iterable[str] = TOPICS) -> list[PartitionReplicas]:
    """Raises `KafkaError` if no broker describes the topics."""
    brokers = {each["broker_id"]: (each["host"], each["port"]) for each in client.describe_cluster()["brokers"]}
    described = [
        (topic["name"], partition)
        for topic in client.describe_topics(list(topics))
        if not topic["error_code"]
        for partition in topic["partitions"]
    ]
    ends: dict[int, dict[Place, int]] = {}
    for broker, address in brokers.items():
        places = [(topic, each["partition_index"]) for topic, each in described if broker in each["replica_nodes"]]
        try:
            ends[broker] = read_log_ends(address, places)
        except (OSError, struct.error):
            ends[broker] = {}
    return [
        PartitionReplicas(
            topic,
            each["partition_index"],
            each["leader_id"],
            each["leader_epoch"],
            sorted(each["isr_nodes"]),
            {
                broker: ends.get(broker, {}).get((topic, each["partition_index"]))
                for broker in sorted(each["replica_nodes"])
            },
        )
        for topic, each in sorted(described, key=lambda pair: (pair[0], pair[1]["partition_index"]))
    ]


def read_log_ends(address: tuple[str, int], places: Sequence[Place]) -> dict[Place, int]:
    """Where the logs of this one broker end. A copy with an error is left out. Raises `OSError`."""
    body = struct.pack(">i", DEBUGGER)
    by_topic = {
        topic: [index for _, index in group] for topic, group in groupby(sorted(places), lambda place: place[0])
    }
    body += struct.pack(">i", len(by_topic))
    for topic, indexes in by_topic.items():
        body += struct.pack(">h", len(topic)) + topic.encode() + struct.pack(">i", len(indexes))
        body += b"".join(struct.pack(">iq", index, LATEST) for index in indexes)
    head = struct.pack(">hhih", LIST_OFFSETS, VERSION, 1, len(CLIENT_ID)) + CLIENT_ID
    with socket.create_connection(address, timeout=REQUEST_TIMEOUT_MS / 1000) as connection:
        connection.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        with connection.makefile("rb") as response:
            (length,) = struct.unpack(">i", response.read(4))
            return dict(_parse(response.read(length)))


def _parse(response: bytes) -> Iterator[tuple[Place, int]]:
    position = 4  # the correlation id

    def take(form: str) -> Any:
        nonlocal position
        values = struct.unpack_from(form, response, position)
        position += struct.calcsize(form)
        return values if len(values) > 1 else values[0]

    for _ in range(take(">i")):
        topic = take(f">{take('>h')}s").decode()
        for _ in range(take(">i")):
            index, error, _, offset = take(">ihqq")
            if not error:
                yield (topic, index), offset
