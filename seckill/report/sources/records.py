"""K: every record from the log's start to a recorded cut, read by a process of its own while others read the rest.

It writes plain tuples, block after block, into a file that has no name: reading Kafka in Python costs more than all
other sources together, and so costs it another core. A head that was deleted, or an end that does not come, is a fault
of the source.
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

from seckill.consistency.identity import identity
from seckill.consistency.rows import DecisionSaid, Log, OrderSaid, Place, Requested, Unreadable
from seckill.consistency.sources.topics import BOOTSTRAP_MS
from seckill.topics import INVENTORY_DECISIONS, ORDER_EVENTS, QUEUES, TOPICS

PATIENCE_S = 20.0
"""So long without a record before the cut, and the source is not whole."""

Ends = Mapping[TopicPartition, int]
Row = tuple[Any, ...]
"""Of a record: partition, offset, and the other fields of its kind in their order."""


class NotRead(Exception):
    """The process that reads the topics has failed; the text says why."""


class Read(NamedTuple):
    logs: list[Log]
    requested: list[Requested]
    decisions_said: list[DecisionSaid]
    orders_said: list[OrderSaid]
    unreadable: list[Unreadable]
    faults: list[str]


class Reading:
    """Begins at once; what has been read is asked for when everything else is there."""

    def __init__(self, bootstrap_servers: str, ends: Ends) -> None:
        self._blocks: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # `result` closes it
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # `result` closes it
        command = [sys.executable, "-m", __name__]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=self._blocks, stderr=self._errors, bufsize=0
        )
        wanted = [[place.topic, place.partition, end] for place, end in ends.items()]
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([bootstrap_servers, wanted]).encode())
        self._process.stdin.close()

    def result(self) -> Read:
        with self._blocks, self._errors:
            if self._process.wait():
                self._errors.seek(0)
                said = self._errors.read().decode(errors="replace").strip().splitlines()
                raise NotRead(said[-1] if said else f"ended with {self._process.returncode}")
            self._blocks.seek(0)
            found = Read([], [], [], [], [], [])
            for topic, rows in iter(lambda: marshal.load(self._blocks), None):  # our own child  # nosec B302
                _take(found, topic, rows)
        return found

    def give_up(self) -> None:
        """Nobody will ask any more."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def _take(found: Read, topic: str, rows: list[Row]) -> None:
    match topic:
        case _ if topic in QUEUES:
            found.requested.extend(Requested(Place(row[0], row[1], topic), *row[2:]) for row in rows)
        case INVENTORY_DECISIONS.name:
            found.decisions_said.extend(
                DecisionSaid._make((Place(row[0], row[1], topic), *row[2:-3], _origin(row))) for row in rows
            )
        case ORDER_EVENTS.name:
            found.orders_said.extend(
                OrderSaid._make((Place(row[0], row[1], topic), *row[2:-3], _origin(row))) for row in rows
            )
        case "unreadable":
            found.unreadable.extend(Unreadable(row[2], Place(row[0], row[1], row[2]), row[3]) for row in rows)
        case "logs":
            found.logs.extend(Log(*row) for row in rows)
        case "faults":
            found.faults.extend(str(row[0]) for row in rows)


def _origin(row: Row) -> Place | None:
    """The last three: partition, offset, topic."""
    return None if row[-1] is None else Place(*row[-3:])


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
        bootstrap_servers=bootstrap_servers,
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
        faults = [f"{each.topic}-{each.partition}: not read to the cut {ends[each]}" for each in sorted(wanted)]
    finally:
        consumer.close()
    faults.extend(f"{topic} is not there" for topic in TOPICS if topic not in {each.topic for each in ends})
    logs: list[Row] = []
    for each in sorted(ends):
        start, end = starts[each], ends[each]
        logs.append((each.topic, each.partition, start, end, counts[each]))
        if start > 0:
            faults.append(f"{each.topic}-{each.partition}: the log begins at {start}, its head is gone")
    yield "logs", logs
    yield "faults", [(fault,) for fault in faults]


def _read_all(
    consumer: Any, wanted: set[TopicPartition], ends: Ends, counts: dict[TopicPartition, int]
) -> Iterator[tuple[str, list[Row]]]:
    """Takes from `wanted` what has been read."""
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
    said = orjson.loads(record.value)
    body, kind, event_id = said["body"], said["type"], identity(said["event_id"])
    user, request_id = body["user_id"], identity(body["request_id"])
    key = (record.key or b"").decode()
    if key != user:
        raise ValueError(f"the key {key!r} is not the user")
    at = (record.partition, record.offset, record.timestamp)
    if record.topic in QUEUES:
        if event_id != request_id:
            raise ValueError("the event id is not the request id")
        return (
            *at, request_id, user, body["sale_id"], intern(body["sku"]), body["quantity"], body["admitted_at_ms"],
            body["deadline_ms"],
        )  # fmt: skip
    cause, origin = said.get("cause"), said.get("origin") or (None, None, None)
    follows = (None if cause is None else identity(cause), origin[1], origin[2], origin[0] and intern(origin[0]))
    if record.topic == INVENTORY_DECISIONS.name:
        is_decision = kind == "PurchaseDecided"
        return (
            *at, event_id, request_id, user, intern(body["decision"]) if is_decision else kind, body["quantity"],
            body["sale_id"], intern(body["sku"]), _same(body["unit_price"]) if is_decision else None,
            body["stock_version"], _same(body["decided_at_ms"]) if is_decision else None,
            "" if is_decision else intern(body["reason"]), *follows,
        )  # fmt: skip
    return (
        *at, event_id, kind, identity(body["order_id"]), request_id, user, body["sale_id"], intern(body["sku"]),
        body["quantity"], _same(body["amount"]), body["at_ms"], body["pay_before_ms"], _returned(body), *follows,
    )  # fmt: skip


@lru_cache(maxsize=4096)
def _same(number: int) -> int:
    """One object for equal numbers: they are written, read and kept once."""
    return number


def _returned(body: Mapping[str, Any]) -> int:
    """Version 1 says only whether the units come back."""
    units = body.get("returned_units")
    return int(units if units is not None else body["quantity"] if body.get("return_units") else 0)


if __name__ == "__main__":
    sys.exit(main())
