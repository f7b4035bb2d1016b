"""Shell: the replicas of the sale's topics: the leader, the in-sync replicas, and where each broker's copy ends.

Clients learn only the high watermark of a partition. ListOffsets with the replica id of a debugger (−2) tells the end
of the log of whichever broker is asked, in Kafka's brokers and in ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.protocol.consumer import ListOffsetsRequest

from seckill.config.kafka_clients import client_options
from seckill.messaging.topics import TOPICS

REQUEST_TIMEOUT_MS = 2000
DEBUGGER, LATEST = -2, -1
_Topic = ListOffsetsRequest.ListOffsetsTopic
_Partition = _Topic.ListOffsetsPartition

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
        **client_options(bootstrap_servers), client_id="console", request_timeout_ms=REQUEST_TIMEOUT_MS
    )


def read_replicas(client: Any, topics: Iterable[str] = TOPICS) -> list[PartitionReplicas]:
    """Raises `KafkaError` if no broker describes the topics."""
    brokers = [each["broker_id"] for each in client.describe_cluster()["brokers"]]
    described = [
        (topic["name"], partition)
        for topic in client.describe_topics(list(topics))
        if not topic["error_code"]
        for partition in topic["partitions"]
    ]
    ends: dict[int, dict[Place, int]] = {}
    for broker in brokers:
        places = [(topic, each["partition_index"]) for topic, each in described if broker in each["replica_nodes"]]
        try:
            ends[broker] = read_log_ends(client, broker, places)
        except KafkaError:
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


def read_log_ends(client: Any, broker: int, places: Sequence[Place]) -> dict[Place, int]:
    """Where the logs of this one broker end. A copy with an error is left out. Raises `KafkaError`."""
    by_topic = groupby(sorted(places), lambda place: place[0])
    request = ListOffsetsRequest(
        replica_id=DEBUGGER,
        isolation_level=0,
        topics=[
            _Topic(name=topic, partitions=[_Partition(partition_index=index, timestamp=LATEST) for _, index in group])
            for topic, group in by_topic
        ],
    )
    answer = client._manager.run(_send, client, broker, request)
    return {
        (topic.name, each.partition_index): each.offset
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code
    }


async def _send(client: Any, broker: int, request: Any) -> Any:
    """kafka-python's admin client asks only leaders; this asks the broker that is named."""
    return await client._manager.send(request, node_id=broker)
