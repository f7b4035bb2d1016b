"""Two partitions behind the counter of Produce and Fetch, on a disk in memory, at a time that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from mqcore.apis import produce
from mqcore.config import BrokerConfig
from mqcore.identity import BrokerId
from mqcore.metrics import Metrics
from mqcore.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from mqcore.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.partitions.stage import Stage, batch

ORDERS, PAYMENTS = "orders", "payments"
IDS = {ORDERS: UUID(int=1), PAYMENTS: UUID(int=2)}


class CounterCall:
    """Implements `mqcore.apis.call.Call`."""

    client_id, client_host, listener = "tester", "10.0.0.1", "PLAINTEXT"

    def __init__(self, counter: Counter, version: int) -> None:
        self.services: Any = counter.services
        self.version = version
        self.when_gone: Callable[[], None] | None = None
        self.answers: list[Any] = []
        self.hung_up = False

    def answer(self, response: Any) -> None:
        self.answers.append(response)

    def hang_up(self) -> None:
        self.hung_up = True


class Counter:
    def __init__(self, **settings: str) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self.stages = {topic: Stage(named) for topic in IDS}
        self.clock = VirtualClock()
        self.offline: set[str] = set()
        topics = {
            topic: SimpleNamespace(name=topic, id=IDS[topic], partitions=[SimpleNamespace(replicas=(BrokerId(0),))])
            for topic in IDS
        }
        self.services = SimpleNamespace(
            config=BrokerConfig(),
            clock=self.clock,
            metrics=Metrics(),
            stopping=False,
            waiting_partitions=0,
            partitions=self,
            image=SimpleNamespace(topics=topics, topics_by_id={topic.id: topic for topic in topics.values()}),
        )
        self.disk_is_full = False

    def get(self, topic: str, index: int) -> Any:
        """As `HostedPartitions` does."""
        hosted = index == 0 and topic in self.stages and topic not in self.offline
        return self.stages[topic].partition if hosted else None

    def by_id(self, topic_id: UUID, index: int) -> Any:
        for name, known in IDS.items():
            if known == topic_id:
                return self.get(name, index)
        return None

    def sync(self) -> None:
        for stage in self.stages.values():
            stage.sync()

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    def produce(
        self, *topics: str, acks: int = -1, timeout_ms: int = 1000, index: int = 0, data: memoryview | None = None
    ) -> tuple[Any, CounterCall]:
        """What the handler returned, and the call that may be answered later."""
        call = CounterCall(self, 9)
        asked = [ProduceTopic(topic, None, [ProducePartition(index, data or batch())]) for topic in topics]
        return produce.handle(ProduceRequest(None, acks, timeout_ms, asked), call), call


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
    """(topic, offset) of partitions 0."""
    topics = [
        FetchTopic(topic, None, [FetchPartition(0, current_epoch, offset, last_epoch, -1, 1 << 20)])
        for topic, offset in wanted
    ]
    return FetchRequest(max_wait_ms, min_bytes, max_bytes, isolation, 0, -1, topics, replica_id=replica)
