"""Shell: which consumer has which partition, as the broker's groups say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka import KafkaAdminClient

PATIENCE_MS = 3000

Owners = dict[tuple[str, str, int], str]
"""By group, topic and partition: the client's name, in our stack the process's."""


def admin(bootstrap_servers: str) -> Any:
    return KafkaAdminClient(bootstrap_servers=bootstrap_servers, client_id="console", request_timeout_ms=PATIENCE_MS)


def owners(client: Any, groups: Iterable[str]) -> Owners:
    """`KafkaError` if nobody answers. A group that is being balanced anew has none for the moment."""
    found: Owners = {}
    for group, described in client.describe_groups(list(groups)).items():
        for member in described["members"]:
            assigned = member["member_assignment"] or {}
            for topic in assigned.get("assigned_partitions", ()) if isinstance(assigned, dict) else ():
                for partition in topic["partitions"]:
                    found[(group, topic["topic"], partition)] = member["client_id"]
    return found
