"""What API modules may use: the rooms of one broker, put together by mqcore/broker.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from mqcore.clock import Clock
from mqcore.config import BrokerConfig
from mqcore.controller.image import ClusterImage
from mqcore.controller.observer import MetadataObserver
from mqcore.controller.queue import Controller
from mqcore.metrics import Metrics
from mqcore.partitions.hosted import HostedPartitions
from mqcore.wire.errors import ErrorCode

if TYPE_CHECKING:
    from mqcore.groups.coordinator import GroupCoordinator


class ProducerIds:
    """What is left of the block of producer ids this broker has reserved."""

    def __init__(self) -> None:
        self._next = self.left = 0

    def refill(self, first: int, count: int) -> None:
        self._next, self.left = first, count

    def take(self) -> int:
        taken, self._next, self.left = self._next, self._next + 1, self.left - 1
        return taken


@dataclass(slots=True)
class AllTopics:
    """Encoded Metadata responses that name all topics, by what they depend on besides `state`."""

    state: object = None
    encoded: dict[tuple[object, ...], bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Services:
    config: BrokerConfig
    cluster_id: str
    directory_id: UUID
    clock: Clock
    metrics: Metrics
    partitions: HostedPartitions
    observer: MetadataObserver
    controller: Controller
    groups: GroupCoordinator
    ensure_offsets_topic: Callable[[Callable[[ErrorCode], None]], None]
    """Make `__consumer_offsets` if there is none yet; then say NONE, or why not."""
    topic_defaults: dict[str, str] = field(default_factory=dict)
    """Topic settings of the broker's configuration, by topic setting name."""
    producer_ids: ProducerIds = field(default_factory=ProducerIds)
    waiting_partitions: int = 0
    """Partitions named by fetches that wait for more."""
    all_topics: AllTopics = field(default_factory=AllTopics)
    stopping: bool = False
    """Nobody is kept waiting any more."""
    free_bytes: Callable[[], int] = lambda: 0

    @property
    def image(self) -> ClusterImage:
        return self.observer.image

    def endpoint(self, broker_id: int, listener: str) -> tuple[str, int] | None:
        """The address of a broker as clients of this listener are told it: one and the same everywhere."""
        for broker in self.image.brokers.values():
            if broker.broker == broker_id:
                for endpoint in broker.endpoints:
                    if endpoint.listener == listener:
                        return endpoint.host, endpoint.port
        return None
