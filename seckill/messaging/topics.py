"""The table of all topics: partitions, retention, writer, readers. Services take topic names only from here.

Every topic flushes each batch before acknowledging it. The relay deletes an outbox row when its record is acknowledged,
so a record that a power failure removed would be lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

PARTITIONS = 12
DAY_MS = 24 * 3600 * 1000

NO_CONFIGS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Topic:
    """Every topic is keyed by user id, so each user's events stay in order from request to notification."""

    name: str
    writer: str
    readers: tuple[str, ...]
    configs: Mapping[str, str] = field(default_factory=lambda: NO_CONFIGS, hash=False)
    partitions: int = PARTITIONS
    overflow: Topic | None = None
    """A second topic with the same writer, readers, partitions and slots, used while this one has a long backlog."""

    @property
    def dead(self) -> str:
        """The topic of records that could not be processed."""
        return f"{self.name}.dead"


PURCHASE_DIVERTED = Topic(
    "purchase.requests.diverted",  # empty until `seckill backlog divert` sends new requests here
    writer="gateway",
    readers=("inventory", "analytics"),
    configs=MappingProxyType(
        {"message.timestamp.type": "LogAppendTime", "flush.messages": "1", "retention.ms": str(7 * DAY_MS)}
    ),
)
PURCHASE_REQUESTS = replace(PURCHASE_DIVERTED, name="purchase.requests", overflow=PURCHASE_DIVERTED)
REQUEST_TOPICS = (PURCHASE_REQUESTS.name, PURCHASE_DIVERTED.name)
"""The topics in which requests wait for inventory's decision."""
INVENTORY_DECISIONS = Topic(
    "inventory.decisions",
    writer="inventory",
    readers=("orders", "gateway.outcomes", "analytics"),
    configs=MappingProxyType({"flush.messages": "1", "retention.ms": str(7 * DAY_MS)}),
)
ORDER_EVENTS = Topic(
    "order.events",
    writer="orders",
    readers=(
        "inventory.settlement",
        "gateway.outcomes",
        "notify.sms",
        "notify.email",
        "notify.push",
        "analytics",
    ),
    configs=MappingProxyType({"flush.messages": "1", "retention.ms": str(7 * DAY_MS)}),
)

TOPICS: dict[str, Topic] = {
    topic.name: topic for topic in (PURCHASE_REQUESTS, PURCHASE_DIVERTED, INVENTORY_DECISIONS, ORDER_EVENTS)
}


def replication(brokers: int) -> tuple[int, dict[str, str]]:
    """Replication factor and topic settings for a cluster with this number of brokers."""
    return (3, {"min.insync.replicas": "2"}) if brokers >= 3 else (1, {})
