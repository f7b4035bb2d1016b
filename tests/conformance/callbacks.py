"""The callbacks of two libraries' consumers in a rebalance, as a transcript that does not depend on the broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import CommitFailedError, KafkaError
from kafka.structs import OffsetAndMetadata

from seckill.messaging import kafka_client

TOPIC = "orders"  # with three partitions
PATIENCE_S = 30.0
SESSION_MS = 6_000
REBALANCE_MS = 6_500  # how long a member may go without `poll`

IN_REBALANCE = ("RebalanceInProgressError", "REBALANCE_IN_PROGRESS")

Event = tuple[str, tuple[int, ...]]


class Member(Protocol):
    events: list[Event]

    def told(self) -> list[Event]: ...

    def poll(self) -> None: ...

    def owned(self) -> tuple[int, ...]: ...

    def commit(self, partition: int, offset: int) -> str: ...

    def close(self) -> None: ...


class KafkaPython(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, port: int, group: str, name: str, instance: str | None) -> None:
        self.events: list[Event] = []
        self._consumer = KafkaConsumer(
            bootstrap_servers=f"127.0.0.1:{port}",
            group_id=group,
            client_id=name,
            group_instance_id=instance,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            max_poll_interval_ms=REBALANCE_MS,
            enable_auto_commit=False,
            partition_assignment_strategy=[RangePartitionAssignor],
        )
        self._consumer.subscribe([TOPIC], listener=self)

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self.events.append(("revoked", _numbers(revoked)))
        kafka_client.request_rejoin(self._consumer)

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self.events.append(("assigned", _numbers(assigned)))

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self.events.append(("lost", _numbers(lost)))

    def told(self) -> list[Event]:
        return ownerships(self.events)

    def poll(self) -> None:
        kafka_client.request_unknown_topics(self._consumer)
        self._consumer.poll(timeout_ms=50)

    def owned(self) -> tuple[int, ...]:
        return _numbers(self._consumer.assignment())

    def commit(self, partition: int, offset: int) -> str:
        try:
            self._consumer.commit({TopicPartition(TOPIC, partition): OffsetAndMetadata(offset, "", -1)})
        except (CommitFailedError, KafkaError) as error:
            return type(error).__name__
        return "committed"

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class Confluent:
    def __init__(self, port: int, group: str, name: str, instance: str | None) -> None:
        self.events: list[Event] = []
        settings = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "group.id": group,
            "client.id": name,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 300,
            "max.poll.interval.ms": REBALANCE_MS,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "range",
            "log_level": 0,
        }
        self._consumer = Consumer(settings if instance is None else settings | {"group.instance.id": instance})
        self._consumer.subscribe(
            [TOPIC],
            on_assign=lambda _, parts: self.events.append(("assigned", _numbers(parts))),
            on_revoke=lambda _, parts: self.events.append(("revoked", _numbers(parts))),
            on_lost=lambda _, parts: self.events.append(("lost", _numbers(parts))),
        )

    def told(self) -> list[Event]:
        return self.events

    def poll(self) -> None:
        self._consumer.poll(0.05)

    def owned(self) -> tuple[int, ...]:
        return _numbers(self._consumer.assignment())

    def commit(self, partition: int, offset: int) -> str:
        try:
            self._consumer.commit(offsets=[ConfluentPartition(TOPIC, partition, offset)], asynchronous=False)
        except KafkaException as error:
            return str(error.args[0].name())
        return "committed"

    def close(self) -> None:
        self._consumer.close()


LIBRARIES: dict[str, Callable[[int, str, str, str | None], Member]] = {
    "kafka-python": KafkaPython,
    "confluent-kafka": Confluent,
}


def _numbers(partitions: Iterable[Any]) -> tuple[int, ...]:
    return tuple(sorted(each.partition for each in partitions))


def ownerships(events: list[Event]) -> list[Event]:
    """Without revocations and repetitions, because how often kafka-python rejoins depends on timing."""
    kept: list[Event] = []
    for kind, numbers in events:
        if kind != "revoked" and numbers and kept[-1:] != [(kind, numbers)]:
            kept.append((kind, numbers))
    return kept


def poll_until(members: list[Member], holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, [(each.owned(), each.events) for each in members]
        for each in members:
            each.poll()


def settle(*members: Member) -> None:
    """Poll all members until each partition has one owner and each member owns at least one."""

    def settled() -> bool:
        owned = [each.owned() for each in members]
        return all(owned) and sorted(number for each in owned for number in each) == [0, 1, 2]

    poll_until(list(members), settled)


def commit_when_settled(member: Member, *members: Member) -> str:
    """The answer after rebalances have ended, because kafka-python may just have begun one."""
    said = ""

    def answered() -> bool:
        nonlocal said
        said = member.commit(member.owned()[0], 1) if member.owned() else IN_REBALANCE[0]
        return said not in IN_REBALANCE

    poll_until(list(members), answered)
    return said


def restarts_of_static_members(library: str, port: int) -> list[Any]:
    """Callbacks when a follower and the leader restart and then a third member joins."""
    make = LIBRARIES[library]
    group = f"static-{library}"
    one = make(port, group, "one", "one")
    settle(one)
    two = make(port, group, "two", "two")
    settle(one, two)
    told: list[Any] = []
    closed: list[Member] = []
    for restarting in ("two", "one"):
        stays = one if restarting == "two" else two
        before = list(stays.told())
        leaves = two if restarting == "two" else one
        leaves.close()
        closed.append(leaves)
        again = make(port, group, restarting, restarting)
        one, two = (one, again) if restarting == "two" else (again, two)
        settle(one, two)
        told += [list(again.told()), stays.told() == before, one.owned(), two.owned()]
        told += [commit_when_settled(each, one, two) for each in (one, two)]
    three = make(port, group, "three", "three")
    settle(one, two, three)
    told += [each.owned() for each in (one, two, three)]
    for each in (one, two, three):
        each.close()
    return told + [each.told() for each in (*closed, one, two, three)]


def commits_of_a_member_that_stays_away(library: str, port: int) -> list[Any]:
    """Commits before, during and after a rebalance that a member missed because it did not poll."""
    make = LIBRARIES[library]
    group = f"away-{library}"
    away = make(port, group, "away", None)
    settle(away)
    told: list[Any] = [commit_when_settled(away, away)]
    other = make(port, group, "other", None)
    poll_until([other], lambda: other.owned() == (0, 1, 2))
    told += [away.commit(0, 2), commit_when_settled(other, other)]
    settle(away, other)
    told += [commit_when_settled(away, away, other)]
    for each in (away, other):
        each.close()
    return [*told, away.told(), other.told()]


STORIES = [restarts_of_static_members, commits_of_a_member_that_stays_away]
