"""Shell: the clients of the kill test: idempotent producers and consumers of two client libraries, on threads.

A producer numbers its records within each partition and writes down every acknowledgement.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as ConfluentPlace
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPlace
from kafka.errors import UnknownBrokerIdError

from tests.conformance.history import Place, Sent

PAUSE_S = 0.002
DELIVERY_TIMEOUT_MS = 120_000


def to_value(sent: Sent) -> bytes:
    return f"{sent.producer}/{sent.partition}/{sent.number}".encode()


def from_value(value: bytes) -> Sent:
    producer, partition, number = value.decode().split("/")
    return Sent(producer, int(partition), int(number))


class Person(threading.Thread):
    """One client on its own thread. An exception there is kept and raised again by `join`."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.enough = threading.Event()
        self.fault: BaseException | None = None

    def run(self) -> None:
        try:
            self.act()
        except BaseException as fault:
            self.fault = fault

    def act(self) -> None:
        raise NotImplementedError

    def finish(self, timeout_s: float) -> None:
        self.enough.set()
        self.join(timeout_s)
        if self.fault is not None:
            raise self.fault
        assert not self.is_alive(), f"{self.name} did not finish within {timeout_s:.0f} s"


class Writer(Person):
    def __init__(self, name: str, address: str, topic: str, partitions: int) -> None:
        super().__init__(name)
        self.address, self.topic, self.partitions = address, topic, partitions
        self.acked: dict[Sent, Place] = {}
        self.unknown: set[Sent] = set()
        self.refused: set[Sent] = set()

    def records(self) -> Iterator[Sent]:
        number = 0
        while not self.enough.is_set():
            for partition in range(self.partitions):
                yield Sent(self.name, partition, number)
            number += 1
            time.sleep(PAUSE_S)


class ConfluentWriter(Writer):
    def act(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.address,
                "enable.idempotence": True,
                "linger.ms": 2,
                "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        for sent in self.records():
            value = to_value(sent)
            producer.produce(self.topic, value, partition=sent.partition, on_delivery=partial(self._hear, sent))
            producer.poll(0)
        assert producer.flush(DELIVERY_TIMEOUT_MS / 1000) == 0

    def _hear(self, sent: Sent, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            (self.refused if error.code() in _REFUSED else self.unknown).add(sent)
        else:
            self.acked[sent] = Place(message.partition() or 0, message.offset() or 0)


class PythonWriter(Writer):
    def act(self) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self.address,
            enable_idempotence=True,
            linger_ms=2,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            request_timeout_ms=20_000,
            reconnect_backoff_max_ms=500,
        )
        waiting: list[tuple[Sent, Any]] = []
        for sent in self.records():
            waiting.append((sent, producer.send(self.topic, to_value(sent), partition=sent.partition)))
        producer.flush(timeout=DELIVERY_TIMEOUT_MS / 1000)
        producer.close()
        for sent, future in waiting:
            if future.succeeded():
                told = future.value
                self.acked[sent] = Place(told.partition, told.offset)
            else:
                self.unknown.add(sent)


class Reader(Person):
    """Reads every partition from the start without a group, until it reaches the given end offsets."""

    def __init__(self, name: str, address: str, topic: str, partitions: int) -> None:
        super().__init__(name)
        self.address, self.topic, self.partitions = address, topic, partitions
        self.seen: list[tuple[Place, Sent]] = []
        self.ends: dict[int, int] = {}  # set before `enough`
        self._next = dict.fromkeys(range(partitions), 0)

    def note(self, partition: int, offset: int, value: bytes) -> None:
        self.seen.append((Place(partition, offset), from_value(value)))
        self._next[partition] = offset + 1

    def has_all(self) -> bool:
        return self.enough.is_set() and all(self._next[p] >= end for p, end in self.ends.items())


class ConfluentReader(Reader):
    def act(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": f"{self.topic}-{self.name}",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",  # a missing offset must raise an error
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        consumer.assign([ConfluentPlace(self.topic, p, OFFSET_BEGINNING) for p in range(self.partitions)])
        while not self.has_all():
            message = consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is None:
                self.note(message.partition() or 0, message.offset() or 0, message.value() or b"")
            else:
                assert error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN), error
        consumer.close()


class PythonReader(Reader):
    def act(self) -> None:
        while not self.has_all():
            consumer = self._start()
            try:
                while not self.has_all():
                    for place, records in consumer.poll(timeout_ms=200).items():
                        for record in records:
                            self.note(place.partition, record.offset, record.value)
            except UnknownBrokerIdError:
                pass  # a broker has left; this consumer would never read again (docs/gaps.md), so another one goes on
            finally:
                consumer.close()

    def _start(self) -> KafkaConsumer:
        consumer = KafkaConsumer(
            bootstrap_servers=self.address,
            auto_offset_reset="none",
            enable_auto_commit=False,
            reconnect_backoff_max_ms=500,
        )
        consumer.assign([PythonPlace(self.topic, p) for p in range(self.partitions)])
        for partition, offset in self._next.items():
            consumer.seek(PythonPlace(self.topic, partition), offset)
        return consumer


class GroupReader(Reader):
    """A member of a group: after a rebalance it may see records again, but it must start at the committed offset."""

    def __init__(self, name: str, address: str, topic: str, partitions: int, group: str) -> None:
        super().__init__(name, address, topic, partitions)
        self.group = group
        self.committed: list[Place] = []  # commits that the broker confirmed, in order

    def act(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": self.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 500,
                "partition.assignment.strategy": "cooperative-sticky",
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        consumer.subscribe([self.topic])
        while not self.enough.is_set():
            for message in consumer.consume(500, timeout=0.1):
                if message.error() is None:
                    self.note(message.partition() or 0, message.offset() or 0, message.value() or b"")
            try:
                for place in consumer.commit(asynchronous=False) or ():
                    if place.error is None and place.offset >= 0:
                        self.committed.append(Place(place.partition, place.offset))
            except KafkaException as fault:  # nothing new, a rebalance, or no broker: retry
                assert fault.args[0].code() in _NO_COMMIT_NOW, fault
        consumer.close()


_REFUSED = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG, KafkaError.TOPIC_AUTHORIZATION_FAILED})
"""The broker has said that it did not store the record. After any other error it may have, NOT_LEADER included: the
client may have sent the record to another broker before (KAFKA-13574)."""

_NO_COMMIT_NOW = frozenset(
    {
        KafkaError._NO_OFFSET,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._WAIT_COORD,
        KafkaError._ASSIGNMENT_LOST,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
    }
)
