"""One Spark session for all tests that need one, and records for it to read. Other tests do not start Java."""

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
from seckill.messaging.envelope import Envelope
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.topics import INVENTORY_DECISIONS, ORDER_EVENTS, PURCHASE_DIVERTED, PURCHASE_REQUESTS, TOPICS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPACE = UUID("57a70000-0000-4000-8000-000000000000")
BEGAN_MS = int(time.time() - 24 * 3600) * 1000
"""Yesterday, because topics delete records that are older than a week."""
SALE, SKU, PRICE = 7, "phone", 9_900


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A small session with little compilation, because it handles little data. Fetches the connector for Kafka if it is
    not cached."""
    from analytics import session, spark_jars

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # py4j leaves sockets to the garbage collector
        spark_jars.fetch_jars(print)
        folder = tmp_path_factory.mktemp("spark")
        options = session.spark_settings("local[2]", folder)["spark.driver.extraJavaOptions"]
        more = {
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.codegen.wholeStage": "false",
            "spark.driver.memory": "768m",
            "spark.driver.extraJavaOptions": f"{options} -XX:TieredStopAtLevel=1",
        }
        started = session.start_session("local[2]", folder, more)
        yield started
        started.stop()
        gc.collect()


def make_topics(address: str) -> None:
    """The topics of the sale with two partitions each."""
    from kafka import KafkaAdminClient
    from kafka.admin import NewTopic

    admin = KafkaAdminClient(bootstrap_servers=address)
    try:
        admin.create_topics([NewTopic(each.name, 2, 1, topic_configs=dict(each.configs)) for each in TOPICS.values()])
    finally:
        admin.close()


@dataclass
class Sale:
    """Messages as the services write them, by topic, with their times in the log."""

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
        self.say(INVENTORY_DECISIONS.name, user, decided.envelope(RecordPosition(PURCHASE_REQUESTS.name, 0, 0)))

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
        """As rows of one partition per topic: topic, partition, offset, log_ms, value."""
        return [
            (topic, 0, offset, at_ms, None if content is None else bytearray(content))
            for topic, sent in self.sent.items()
            for offset, (_, content, at_ms) in enumerate(sent)
        ]

    def produce(self, address: str) -> None:
        """Produces the messages to the topics of a broker and forgets them."""
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
    """Twelve buyers and three units. Some buyers send twice, and some messages are duplicated, late or invalid."""
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
    """A purchase request as JSON with changes in its body or envelope."""
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
