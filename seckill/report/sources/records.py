"""Shell: read every record from the start of each topic to the recorded cut, in a child process.

Decoding Kafka records in Python costs more than reading all other sources together, so it runs on another core while
the parent reads the rest. The child writes plain tuples, block by block, into a temporary file. A partition whose head
was deleted, or that does not deliver its last records, makes the source incomplete.
"""

from __future__ import annotations

import json
import marshal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from sys import intern
from typing import IO, Any, NamedTuple

import orjson
from kafka import KafkaConsumer, TopicPartition

from seckill.config.kafka_clients import client_options
from seckill.messaging.topics import INVENTORY_DECISIONS, ORDER_EVENTS, REQUEST_TOPICS, TOPICS
from seckill.report.identity import identity
from seckill.report.rows import DecisionEvent, OrderEvent, PartitionLog, RecordPosition, RequestRecord, Unreadable
from seckill.report.sources.topics import BOOTSTRAP_MS

PATIENCE_S = 20.0
"""After this long without a record the reader gives up, and the source is incomplete."""

Ends = Mapping[TopicPartition, int]
Row = tuple[Any, ...]
"""Partition and offset of a record, then the other fields of its kind in order."""


class TopicsUnreadable(Exception):
    """The child process failed; the message says why."""


class TopicContents(NamedTuple):
    partition_logs: list[PartitionLog]
    requests: list[RequestRecord]
    decision_events: list[DecisionEvent]
    order_events: list[OrderEvent]
    unreadable: list[Unreadable]
    faults: list[str]


class TopicReader:
    """Starts the child at once. Call `result` after everything else has been read."""

    def __init__(self, bootstrap_servers: str, ends: Ends) -> None:
        self._blocks: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # `result` closes it
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # `result` closes it
        command = [sys.executable, "-m", __name__]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=self._blocks, stderr=self._errors, bufsize=0
        )
        wanted = [[partition.topic, partition.partition, end] for partition, end in ends.items()]
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([bootstrap_servers, wanted]).encode())
        self._process.stdin.close()

    def result(self) -> TopicContents:
        with self._blocks, self._errors:
            if self._process.wait():
                self._errors.seek(0)
                errors = self._errors.read().decode(errors="replace").strip().splitlines()
                raise TopicsUnreadable(errors[-1] if errors else f"exit code {self._process.returncode}")
            self._blocks.seek(0)
            contents = TopicContents([], [], [], [], [], [])
            for topic, rows in iter(lambda: marshal.load(self._blocks), None):  # our own child  # nosec B302
                _add_rows(contents, topic, rows)
        return contents

    def stop(self) -> None:
        """End the child if it is still running."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def _add_rows(contents: TopicContents, topic: str, rows: list[Row]) -> None:
    match topic:
        case _ if topic in REQUEST_TOPICS:
            contents.requests.extend(RequestRecord(RecordPosition(topic, row[0], row[1]), *row[2:]) for row in rows)
        case INVENTORY_DECISIONS.name:
            contents.decision_events.extend(
                DecisionEvent._make((RecordPosition(topic, row[0], row[1]), *row[2:-3], _origin(row))) for row in rows
            )
        case ORDER_EVENTS.name:
            contents.order_events.extend(
                OrderEvent._make((RecordPosition(topic, row[0], row[1]), *row[2:-3], _origin(row))) for row in rows
            )
        case "unreadable":
            contents.unreadable.extend(
                Unreadable(row[2], RecordPosition(row[2], row[0], row[1]), row[3]) for row in rows
            )
        case "logs":
            contents.partition_logs.extend(PartitionLog(*row) for row in rows)
        case "faults":
            contents.faults.extend(str(row[0]) for row in rows)


def _origin(row: Row) -> RecordPosition | None:
    """Stored in the last three fields."""
    return None if row[-3] is None else RecordPosition(*row[-3:])


# ── the process ──────────────────────────────────────────────────────────────────────────────────


def main() -> int:
    bootstrap_servers, wanted = json.load(sys.stdin)
    ends = {TopicPartition(topic, partition): end for topic, partition, end in wanted}
    for topic, rows in _blocks(bootstrap_servers, ends):
        marshal.dump((topic, rows), sys.stdout.buffer)
    marshal.dump(None, sys.stdout.buffer)
    sys.stdout.buffer.flush()
    return 0


def _blocks(bootstrap_servers: str, ends: Ends) -> Iterator[tuple[str, list[Row]]]:
    consumer = KafkaConsumer(
        **client_options(bootstrap_servers),
        client_id="report",
        bootstrap_timeout_ms=BOOTSTRAP_MS,
        enable_auto_commit=False,
        auto_offset_reset="none",
        max_poll_records=5000,
        fetch_max_wait_ms=100,
    )
    try:
        starts = dict(consumer.beginning_offsets(list(ends)))
        wanted = {partition for partition, end in ends.items() if end > starts[partition]}
        counts = dict.fromkeys(ends, 0)
        consumer.assign(sorted(wanted))
        for partition in wanted:
            consumer.seek(partition, starts[partition])
        yield from _read_all(consumer, wanted, ends, counts)
        faults = [f"{each.topic}-{each.partition}: not read up to the cut at {ends[each]}" for each in sorted(wanted)]
    finally:
        consumer.close()
    faults.extend(f"topic {topic} does not exist" for topic in TOPICS if topic not in {each.topic for each in ends})
    logs: list[Row] = []
    for each in sorted(ends):
        start, end = starts[each], ends[each]
        logs.append((each.topic, each.partition, start, end, counts[each]))
        if start > 0:
            faults.append(f"{each.topic}-{each.partition}: starts at offset {start}, its head was deleted")
    yield "logs", logs
    yield "faults", [(fault,) for fault in faults]


def _read_all(
    consumer: Any, wanted: set[TopicPartition], ends: Ends, counts: dict[TopicPartition, int]
) -> Iterator[tuple[str, list[Row]]]:
    """Removes each partition from `wanted` when it has been read to its end."""
    give_up = time.monotonic() + PATIENCE_S
    while wanted and time.monotonic() < give_up:
        for partition, records in consumer.poll(timeout_ms=200).items():
            give_up = time.monotonic() + PATIENCE_S
            rows: list[Row] = []
            unreadable: list[Row] = []
            for record in records:
                if record.offset < ends[partition]:
                    counts[partition] += 1
                    try:
                        rows.append(_row(record))
                    except (ValueError, KeyError, TypeError, AttributeError) as error:
                        unreadable.append((record.partition, record.offset, record.topic, repr(error)[:200]))
            yield partition.topic, rows
            if unreadable:
                yield "unreadable", unreadable
        for partition in [partition for partition in wanted if consumer.position(partition) >= ends[partition]]:
            wanted.discard(partition)
            consumer.pause(partition)


def _row(record: Any) -> Row:
    message = orjson.loads(record.value)
    body, kind, event_id = message["body"], message["type"], identity(message["event_id"])
    user, request_id = body["user_id"], identity(body["request_id"])
    key = (record.key or b"").decode()
    if key != user:
        raise ValueError(f"the key {key!r} differs from the user {user!r}")
    at = (record.partition, record.offset, record.timestamp)
    if record.topic in REQUEST_TOPICS:
        if event_id != request_id:
            raise ValueError("the event id differs from the request id")
        return (
            *at, request_id, user, body["sale_id"], intern(body["sku"]), body["quantity"], body["admitted_at_ms"],
            body["deadline_ms"],
        )  # fmt: skip
    cause, origin = message.get("cause"), message.get("origin") or (None, None, None)
    follows = (None if cause is None else identity(cause), origin[0] and intern(origin[0]), origin[1], origin[2])
    if record.topic == INVENTORY_DECISIONS.name:
        is_decision = kind == "PurchaseDecided"
        return (
            *at, event_id, request_id, user, intern(body["decision"]) if is_decision else kind, body["quantity"],
            body["sale_id"], intern(body["sku"]), _shared(body["unit_price"]) if is_decision else None,
            body["stock_version"], _shared(body["decided_at_ms"]) if is_decision else None,
            "" if is_decision else intern(body["reason"]), *follows,
        )  # fmt: skip
    return (
        *at, event_id, kind, identity(body["order_id"]), request_id, user, body["sale_id"], intern(body["sku"]),
        body["quantity"], _shared(body["amount"]), body["at_ms"], body["pay_before_ms"],
        _returned_units(body), *follows,
    )  # fmt: skip


@lru_cache(maxsize=4096)
def _shared(number: int) -> int:
    """The same object for equal numbers, so that marshal stores each number once."""
    return number


def _returned_units(body: Mapping[str, Any]) -> int:
    """Version 1 of the event says only whether the units come back."""
    units = body.get("returned_units")
    return int(units if units is not None else body["quantity"] if body.get("return_units") else 0)


if __name__ == "__main__":
    sys.exit(main())
