"""Values: the parts of a broker that API modules may use. mqcore/broker.py puts them together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from mqcore.config import BrokerConfig
from mqcore.controller.image import ClusterImage
from mqcore.controller.internal_topics import InternalTopics
from mqcore.controller.observer import MetadataObserver
from mqcore.controller.queue import CommandTarget
from mqcore.groups.coordinator import GroupCoordinator
from mqcore.host import Chance, Clock, Network
from mqcore.identity import BrokerId
from mqcore.metrics import Metrics
from mqcore.partitions.durability import Durability
from mqcore.partitions.free_space import FreeSpaceMonitor
from mqcore.partitions.hosted import HostedPartitions
from mqcore.raft.quorum import Quorum
from mqcore.replication.serving import ReplicaFetches

if TYPE_CHECKING:
    from mqcore.apis.forwarding import Forwarding


class ProducerIds:
    """The rest of the block of producer ids that this broker has reserved."""

    def __init__(self) -> None:
        self._next = self.left = 0

    def refill(self, first: int, count: int) -> None:
        self._next, self.left = first, count

    def take(self) -> int:
        taken, self._next, self.left = self._next, self._next + 1, self.left - 1
        return taken


@dataclass(slots=True)
class AllTopicsCache:
    """Encoded Metadata responses for all topics, by everything they depend on besides `state`."""

    state: object = None
    encoded: dict[tuple[object, ...], bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Services:
    config: BrokerConfig
    cluster_id: str
    directory_id: UUID
    clock: Clock
    network: Network
    chance: Chance
    metrics: Metrics
    partitions: HostedPartitions
    durability: Durability
    free_space: FreeSpaceMonitor
    quorum: Quorum
    observer: MetadataObserver
    controller: CommandTarget
    """The active controller, here or on another node."""
    groups: GroupCoordinator
    internal_topics: InternalTopics
    topic_defaults: dict[str, str] = field(default_factory=dict)
    """Topic settings from the broker's configuration, by the name of the topic setting."""
    replica_fetches: ReplicaFetches | None = None
    """Serves followers. None in a cluster of one broker."""
    producer_ids: ProducerIds = field(default_factory=ProducerIds)
    waiting_partitions: int = 0
    """Partitions of all waiting fetches."""
    all_topics: AllTopicsCache = field(default_factory=AllTopicsCache)
    is_stopping: bool = False
    """Waiting requests are answered at once with what is available."""
    free_bytes: Callable[[], int] = lambda: 0
    forwarding: Forwarding | None = None
    """For requests that the active controller serves on another node. None in a cluster of one."""

    def controller_id(self) -> int:
        """The broker that clients send requests for the controller to. This one forwards them, and it surely runs: a
        controller that has died stays in the metadata until there is another one."""
        me = BrokerId(self.config.node_id)
        live = [broker for broker, registered in self.image.brokers.items() if not registered.fenced]
        return me if me in live else min(live, default=-1)

    @property
    def image(self) -> ClusterImage:
        return self.observer.image

    def endpoint(self, broker_id: int, listener: str) -> tuple[str, int] | None:
        """The address of a broker that is advertised to clients of this listener."""
        for broker in self.image.brokers.values():
            if broker.broker == broker_id:
                for endpoint in broker.endpoints:
                    if endpoint.listener == listener:
                        return endpoint.host, endpoint.port
        return None
