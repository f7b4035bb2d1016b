"""Shell: which consumer owns which partition, as the broker's consumer groups report it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka import KafkaAdminClient

from seckill.config.kafka_clients import client_options

REQUEST_TIMEOUT_MS = 3000

PartitionOwners = dict[tuple[str, str, int], str]
"""By group, topic and partition: the consumer's client id, which in our stack is the name of its process."""


def connect_admin(bootstrap_servers: str) -> Any:
    return KafkaAdminClient(
        **client_options(bootstrap_servers), client_id="console", request_timeout_ms=REQUEST_TIMEOUT_MS
    )


def fetch_owners(client: Any, groups: Iterable[str]) -> PartitionOwners:
    """A group that is rebalancing has no owners for the moment. Raises `KafkaError` if the broker does not answer."""
    owners: PartitionOwners = {}
    for group, described in client.describe_groups(list(groups)).items():
        for member in described["members"]:
            assigned = member["member_assignment"] or {}
            for topic in assigned.get("assigned_partitions", ()) if isinstance(assigned, dict) else ():
                for partition in topic["partitions"]:
                    owners[(group, topic["topic"], partition)] = member["client_id"]
    return owners
