"""Two partitions on a disk in memory, served by the handlers of Produce and Fetch on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from mqcore.apis import produce
from mqcore.controller.facts import PartitionCreated, TopicCreated
from mqcore.controller.image import ClusterImage
from mqcore.identity import BrokerId, LeaderEpoch, TopicPartition
from mqcore.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from mqcore.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.fake_call import FakeCall
from tests.unit.mqcore.fake_services import services_with
from tests.unit.mqcore.partitions.helpers import PartitionHarness, batch

ORDERS, PAYMENTS = "orders", "payments"
IDS = {ORDERS: UUID(int=1), PAYMENTS: UUID(int=2)}


def add_topic(image: ClusterImage, topic: str, topic_id: UUID, partitions: int, broker: BrokerId) -> None:
    """A topic that one broker leads."""
    image.apply(TopicCreated(topic, topic_id))
    for index in range(partitions):
        image.apply(PartitionCreated(topic_id, index, (broker,), (broker,), broker, LeaderEpoch(0), 0))


class MemoryPartitions:
    """The part of `HostedPartitions` that the handlers of Produce and Fetch use."""

    def __init__(self, harnesses: Mapping[str, PartitionHarness]) -> None:
        self.offline: set[str] = set()  # topics whose logs could not be opened
        self._harnesses = harnesses

    @property
    def open_failures(self) -> list[TopicPartition]:
        return [TopicPartition(topic, 0) for topic in self.offline]

    def get(self, topic: str, index: int) -> Any:
        is_hosted = index == 0 and topic in self._harnesses and topic not in self.offline
        return self._harnesses[topic].partition if is_hosted else None

    def by_id(self, topic_id: UUID, index: int) -> Any:
        topics = [topic for topic, known in IDS.items() if known == topic_id]
        return self.get(topics[0], index) if topics else None


class MemoryBroker:
    def __init__(self, **settings: str) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self.harnesses = {topic: PartitionHarness(named) for topic in IDS}
        self.clock = VirtualClock()
        self.partitions = MemoryPartitions(self.harnesses)
        self.free_space = SimpleNamespace(is_disk_full=False)
        image = ClusterImage()
        for topic, topic_id in IDS.items():
            add_topic(image, topic, topic_id, 1, BrokerId(0))
        self.services = services_with(
            clock=self.clock,
            partitions=self.partitions,
            free_space=self.free_space,
            observer=SimpleNamespace(image=image),
        )

    def call(self, version: int) -> FakeCall:
        return FakeCall(self.services, version)

    def sync(self) -> None:
        for stage in self.harnesses.values():
            stage.sync()

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    def produce(
        self, *topics: str, acks: int = -1, timeout_ms: int = 1000, index: int = 0, data: memoryview | None = None
    ) -> tuple[Any, FakeCall]:
        """What the handler returned, and the call, which may be answered later."""
        call = self.call(9)
        wanted = [ProduceTopic(topic, None, [ProducePartition(index, data or batch())]) for topic in topics]
        return produce.handle(ProduceRequest(None, acks, timeout_ms, wanted), call), call


def fetch_request(
    *wanted: tuple[str, int],
    max_wait_ms: int = 1000,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    isolation: int = 0,
    current_epoch: int = -1,
    last_epoch: int = -1,
    replica: int = -1,
) -> FetchRequest:
    """`wanted` are (topic, offset) pairs; the partition is always 0."""
    topics = [
        FetchTopic(topic, None, [FetchPartition(0, current_epoch, offset, last_epoch, -1, 1 << 20)])
        for topic, offset in wanted
    ]
    return FetchRequest(max_wait_ms, min_bytes, max_bytes, isolation, 0, -1, topics, replica_id=replica)
