"""The one table of topics: key, partitions, retention, who writes, who reads. Services import names from here only.

All of them flush each batch before it is acknowledged: an outbox row is deleted at the acknowledgement, so a record
that a power loss took back would be gone for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

PARTITIONS = 12
DAY_MS = 24 * 3600 * 1000

NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Topic:
    """Every topic is keyed by user id: what one user does stays in order from request to notification."""

    name: str
    writer: str
    readers: tuple[str, ...]
    configs: Mapping[str, str] = field(default_factory=lambda: NOTHING, hash=False)
    partitions: int = PARTITIONS
    beside: Topic | None = None
    """A second one of the same writer, readers, partitions and slots, for when this one is too long to wait in."""

    @property
    def dead(self) -> str:
        """Where records go that cannot be worked on."""
        return f"{self.name}.dead"


PURCHASE_DIVERTED = Topic(
    "purchase.requests.diverted",  # empty until `seckill backlog divert` sends new requests here
    writer="gateway",
    readers=("inventory", "analytics"),
    configs=MappingProxyType(
        {"message.timestamp.type": "LogAppendTime", "flush.messages": "1", "retention.ms": str(7 * DAY_MS)}
    ),
)
PURCHASE_REQUESTS = replace(PURCHASE_DIVERTED, name="purchase.requests", beside=PURCHASE_DIVERTED)
QUEUES = (PURCHASE_REQUESTS.name, PURCHASE_DIVERTED.name)
"""Where requests stand until inventory has decided them."""
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
    """Replication factor and the settings that go with it, for a cluster of so many brokers."""
    return (3, {"min.insync.replicas": "2"}) if brokers >= 3 else (1, {})
