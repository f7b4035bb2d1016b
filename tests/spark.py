"""One Spark session for all tests that need one, and records for it to read. Who asks for none starts no Java."""

from __future__ import annotations

import gc
import json
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

import pytest

from gateway.events import PurchaseRequested
from inventory.events import Decision, PurchaseDecided, UnitsReleased
from orders.events import OrderChanged, OrderEvent
from seckill.envelope import Envelope, Origin
from seckill.topics import INVENTORY_DECISIONS, ORDER_EVENTS, PURCHASE_DIVERTED, PURCHASE_REQUESTS, TOPICS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPACE = UUID("57a70000-0000-4000-8000-000000000000")
BEGAN_MS = int(time.time() - 24 * 3600) * 1000
"""Yesterday: topics forget what is older than a week."""
SALE, SKU, PRICE = 7, "phone", 9_900


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Small, and made for little data: what Java compiles for much of it would never pay. The connector to Kafka is
    fetched if it never was."""
    from analytics import jars, session

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # py4j leaves sockets to the collector
        jars.fetch(print)
        folder = tmp_path_factory.mktemp("spark")
        options = session.settings("local[2]", folder)["spark.driver.extraJavaOptions"]
        more = {
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.codegen.wholeStage": "false",
            "spark.driver.memory": "768m",
            "spark.driver.extraJavaOptions": f"{options} -XX:TieredStopAtLevel=1",
        }
        started = session.start("local[2]", folder, more)
        yield started
        started.stop()
        gc.collect()


def make_topics(address: str) -> None:
    """As the sale's, with two partitions each: there is little to spread."""
    from kafka import KafkaAdminClient
    from kafka.admin import NewTopic

    admin = KafkaAdminClient(bootstrap_servers=address)
    try:
        admin.create_topics([NewTopic(each.name, 2, 1, topic_configs=dict(each.configs)) for each in TOPICS.values()])
    finally:
        admin.close()


@dataclass
class Sale:
    """Messages as the services write them, by topic, with the times at which they came into the log."""

    sent: dict[str, list[tuple[str, bytes | None, int]]] = field(default_factory=lambda: {name: [] for name in TOPICS})
    now_ms: int = BEGAN_MS

    def asks(
        self, user: str, key: str = "first", after_ms: int = 10, quantity: int = 1, late_ms: int = 0,
        topic: str = PURCHASE_REQUESTS.name,
    ) -> UUID:  # fmt: skip
        self.now_ms += after_ms
        request = uuid5(SPACE, f"{user} {key}")
        at_ms = self.now_ms - late_ms
        said = PurchaseRequested(request, user, SALE, SKU, quantity, at_ms, at_ms + 30_000)
        self.say(topic, user, said.envelope())
        return request

    def decides(self, request: UUID, user: str, decision: str, took_ms: int = 20) -> None:
        decided = PurchaseDecided(request, user, SALE, SKU, 1, PRICE, Decision(decision), 1, self.now_ms + took_ms)
        self.say(INVENTORY_DECISIONS.name, user, decided.envelope(Origin(PURCHASE_REQUESTS.name, 0, 0)))

    def releases(self, request: UUID, user: str) -> None:
        said = UnitsReleased(request, user, SALE, SKU, 1, "expired", 2)
        self.say(INVENTORY_DECISIONS.name, user, said.envelope(request, None))

    def orders(self, request: UUID, user: str, event: OrderEvent, took_ms: int = 40) -> None:
        at_ms = self.now_ms + took_ms
        order = uuid5(SPACE, f"order {request}")
        said = OrderChanged(event, order, request, user, SALE, SKU, 1, PRICE, at_ms, at_ms + 900_000)
        self.say(ORDER_EVENTS.name, user, said.envelope(request, None))

    def say(self, topic: str, user: str, said: Envelope) -> None:
        self.say_bytes(topic, user, said.encode())

    def say_bytes(self, topic: str, user: str, content: bytes | None) -> None:
        self.sent[topic].append((user, content, self.now_ms))

    def says_again(self, topic: str, number: int = -1) -> None:
        user, content, _ = self.sent[topic][number]
        self.sent[topic].append((user, content, self.now_ms))

    def rows(self) -> list[tuple[str, int, int, int, bytearray | None]]:
        """As one partition of each topic would give them: topic, partition, offset, log_ms, value."""
        return [
            (topic, 0, offset, at_ms, None if content is None else bytearray(content))
            for topic, sent in self.sent.items()
            for offset, (_, content, at_ms) in enumerate(sent)
        ]

    def produce(self, address: str) -> None:
        """Into the topics of a broker; what was sent is forgotten here."""
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=address, linger_ms=20)
        try:
            for topic, sent in self.sent.items():
                for user, content, at_ms in sent:
                    producer.send(topic, key=user.encode(), value=content, timestamp_ms=at_ms)
            producer.flush(30)
        finally:
            producer.close()
        self.sent = {name: [] for name in TOPICS}


def story() -> Sale:
    """Twelve buyers and three units; some ask twice, messages come twice, late, or make no sense."""
    sale = Sale()
    for number in range(12):
        user = f"buyer-{number}"
        request = sale.asks(user)
        if number < 3:
            sale.decides(request, user, "RESERVED")
            sale.orders(request, user, OrderEvent.PLACED)
        else:
            sale.decides(request, user, "SOLD_OUT")
    sale.orders(uuid5(SPACE, "buyer-0 first"), "buyer-0", OrderEvent.PAID, took_ms=5_000)
    sale.orders(uuid5(SPACE, "buyer-1 first"), "buyer-1", OrderEvent.EXPIRED)
    sale.releases(uuid5(SPACE, "buyer-1 first"), "buyer-1")
    for number in range(6):
        again = sale.asks("robot", f"key {number}", after_ms=50, topic=PURCHASE_DIVERTED.name)
        sale.decides(again, "robot", "DUPLICATE" if number else "SOLD_OUT")
    sale.asks("snail", late_ms=120_000)
    for topic in TOPICS:
        sale.says_again(topic)
        sale.says_again(topic, 0)
    sale.say_bytes(PURCHASE_REQUESTS.name, "poison", b"\xff\x00 no JSON")
    sale.say_bytes(ORDER_EVENTS.name, "poison", None)
    return sale


def message(**changes: Any) -> dict[str, Any]:
    """A purchase request as plain JSON, with something else in its body or around it."""
    request = str(uuid5(SPACE, "one"))
    body = {
        "request_id": request, "user_id": "anna", "sale_id": SALE, "sku": SKU, "quantity": 1,
        "admitted_at_ms": BEGAN_MS, "deadline_ms": BEGAN_MS + 1,
    }  # fmt: skip
    whole: dict[str, Any] = {"event_id": request, "type": "PurchaseRequested", "version": 1, "body": body}
    around: Mapping[str, Any] = {name: value for name, value in changes.items() if name in whole}
    body |= {name: value for name, value in changes.items() if name not in whole}
    return whole | dict(around)


def written(said: object) -> bytes:
    return json.dumps(said).encode()
