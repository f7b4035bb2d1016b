"""K and G: every record from the log's start to a recorded cut, and the offsets that groups have committed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from seckill.consistency.rows import DecisionSaid, GroupOffset, Log, OrderSaid, Place, Requested, Unreadable
from seckill.topics import INVENTORY_DECISIONS, ORDER_EVENTS, PURCHASE_REQUESTS, TOPICS

BOOTSTRAP_MS = 5000
PATIENCE_S = 20.0
"""So long without a record before the cut, and the source is not whole."""


class Read(NamedTuple):
    logs: list[Log]
    requested: list[Requested]
    decisions_said: list[DecisionSaid]
    orders_said: list[OrderSaid]
    unreadable: list[Unreadable]
    faults: list[str]


def cut(bootstrap_servers: str) -> dict[TopicPartition, int]:
    """The end of every partition, now."""
    consumer = reader(bootstrap_servers)
    try:
        return dict(consumer.end_offsets(partitions(consumer)))
    finally:
        consumer.close()


def reader(bootstrap_servers: str) -> Any:
    """A consumer of no group; `KafkaError` if nobody answers."""
    return KafkaConsumer(bootstrap_servers=bootstrap_servers, client_id="report", bootstrap_timeout_ms=BOOTSTRAP_MS)


def committed(bootstrap_servers: str, groups: Iterable[str]) -> list[GroupOffset]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers, client_id="report", bootstrap_timeout_ms=BOOTSTRAP_MS)
    try:
        return [
            GroupOffset(group, partition.topic, partition.partition, place.offset)
            for group in groups
            for partition, place in admin.list_group_offsets(group)[group].items()
            if place.offset >= 0
        ]
    finally:
        admin.close()


def read(bootstrap_servers: str, ends: dict[TopicPartition, int]) -> Read:
    """Everything below the cut; a head that was deleted, or an end that does not come, is a fault of the source."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        client_id="report",
        bootstrap_timeout_ms=BOOTSTRAP_MS,
        enable_auto_commit=False,
        auto_offset_reset="none",
        max_poll_records=5000,
        fetch_max_wait_ms=100,
    )
    found = Read([], [], [], [], [], [])
    try:
        starts = dict(consumer.beginning_offsets(list(ends)))
        wanted = {partition for partition, end in ends.items() if end > starts[partition]}
        counts = dict.fromkeys(ends, 0)
        consumer.assign(sorted(wanted))
        for partition in wanted:
            consumer.seek(partition, starts[partition])
        _read_all(consumer, wanted, ends, counts, found)
        for partition in sorted(wanted):
            found.faults.append(f"{partition.topic}-{partition.partition}: not read to the cut {ends[partition]}")
    finally:
        consumer.close()
    found.faults.extend(f"{topic} is not there" for topic in TOPICS if topic not in {each.topic for each in ends})
    for partition in sorted(ends):
        start, end = starts[partition], ends[partition]
        found.logs.append(Log(partition.topic, partition.partition, start, end, counts[partition]))
        if start > 0:
            found.faults.append(f"{partition.topic}-{partition.partition}: the log begins at {start}, its head is gone")
    return found


def _read_all(
    consumer: Any,
    wanted: set[TopicPartition],
    ends: dict[TopicPartition, int],
    counts: dict[TopicPartition, int],
    found: Read,
) -> None:
    """Takes from `wanted` what has been read."""
    give_up = time.monotonic() + PATIENCE_S
    while wanted and time.monotonic() < give_up:
        for partition, records in consumer.poll(timeout_ms=200).items():
            give_up = time.monotonic() + PATIENCE_S
            for record in records:
                if record.offset < ends[partition]:
                    counts[partition] += 1
                    _note(found, record)
        for partition in [partition for partition in wanted if consumer.position(partition) >= ends[partition]]:
            wanted.discard(partition)
            consumer.pause(partition)


def partitions(consumer: Any) -> list[TopicPartition]:
    return [
        TopicPartition(topic, partition)
        for topic in TOPICS
        for partition in sorted(consumer.partitions_for_topic(topic) or ())
    ]


def _note(found: Read, record: Any) -> None:
    place = Place(record.partition, record.offset)
    try:
        said = json.loads(record.value)
        body, kind, event_id = said["body"], said["type"], UUID(said["event_id"])
        key = (record.key or b"").decode()
        if key != body["user_id"]:
            raise ValueError(f"the key {key!r} is not the user")
        match record.topic:
            case PURCHASE_REQUESTS.name:
                found.requested.append(
                    Requested(
                        place, record.timestamp, UUID(body["request_id"]), body["user_id"], body["sale_id"],
                        body["sku"], body["quantity"], body["admitted_at_ms"], body["deadline_ms"],
                    )
                )  # fmt: skip
            case INVENTORY_DECISIONS.name:
                decision = body["decision"] if kind == "PurchaseDecided" else kind
                found.decisions_said.append(
                    DecisionSaid(
                        place, record.timestamp, event_id, UUID(body["request_id"]), body["user_id"], decision,
                        body["quantity"],
                    )
                )  # fmt: skip
            case ORDER_EVENTS.name:
                found.orders_said.append(
                    OrderSaid(
                        place, record.timestamp, event_id, kind, UUID(body["order_id"]), UUID(body["request_id"]),
                        body["user_id"],
                    )
                )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        found.unreadable.append(Unreadable(record.topic, place, repr(error)[:200]))
