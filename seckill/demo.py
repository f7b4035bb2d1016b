"""Shell: `make demo`: what there is to show so far, shown with what a user would use.

A broker starts, kafka-python sends records and reads them back, the broker is killed with SIGKILL and started
again, and everything that was acknowledged is still there. Every figure is measured in this run.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from seckill.stack.broker import BrokerFault, BrokerProcess

TOPIC = "demo"
PARTITIONS = 3
RECORD_BYTES = 100
PATIENCE_MS = 30_000

Item = TypeVar("Item")


def show(records: int) -> int:
    console = Console()
    with tempfile.TemporaryDirectory(prefix="mqcore-demo-") as folder:
        broker = BrokerProcess(Path(folder))
        try:
            return _show(console, broker, records)
        except BrokerFault as fault:
            console.print(f"[red]The broker failed:[/] {fault}")
            return 1
        finally:
            broker.stop()


def _show(console: Console, broker: BrokerProcess, records: int) -> int:
    measured = Table("what", "measured", title=f"mqcore, {records:,} records of {RECORD_BYTES} bytes, kafka-python")
    began = time.perf_counter()
    broker.start()
    measured.add_row("start until the first answer", f"{time.perf_counter() - began:.2f} s")
    console.print(f"The broker listens on [bold]{broker.address}[/] (process {broker.pid}); any Kafka client may join.")

    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
    admin.close()

    seconds = _produce(console, broker, records)
    measured.add_row("sent and acknowledged by all replicas (acks=all)", _rate(records, seconds))
    seconds, read = _consume(console, broker, records, "reading")
    measured.add_row("read back, in order", _rate(read, seconds))

    broker.kill()
    began = time.perf_counter()
    broker.start()
    measured.add_row("start after kill -9, until the first answer", f"{time.perf_counter() - began:.2f} s")
    _, still_there = _consume(console, broker, records, "reading after kill -9")
    measured.add_row("acknowledged records lost by kill -9", f"{records - still_there:,}")
    memory = _resident_mb(broker.pid)
    if memory is not None:
        measured.add_row("memory of the broker", f"{memory:.0f} MB")
    console.print(measured)
    if not read == still_there == records:
        console.print(f"[red]{records:,} records were sent, {read:,} read, {still_there:,} after the kill.[/]")
        return 1
    return 0


def _produce(console: Console, broker: BrokerProcess, records: int) -> float:
    producer = KafkaProducer(bootstrap_servers=broker.address, acks="all", linger_ms=5, batch_size=65_536)
    filling = b"." * (RECORD_BYTES - 10)
    began = time.perf_counter()
    for number in _with_bar(console, "sending", range(records), records):
        producer.send(TOPIC, b"%010d" % number + filling, partition=number % PARTITIONS)
    producer.flush()
    seconds = time.perf_counter() - began
    producer.close()
    return seconds


def _consume(console: Console, broker: BrokerProcess, records: int, what: str) -> tuple[float, int]:
    """Seconds, and how many of the records were read in the order in which they were sent."""
    consumer = KafkaConsumer(
        bootstrap_servers=broker.address, auto_offset_reset="earliest", consumer_timeout_ms=PATIENCE_MS
    )
    consumer.assign([TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)])
    expected = {partition: partition for partition in range(PARTITIONS)}
    in_order = 0
    began = time.perf_counter()
    for record in _with_bar(console, what, islice(consumer, records), records):
        in_order += int(record.value[:10]) == expected[record.partition]
        expected[record.partition] += PARTITIONS
    seconds = time.perf_counter() - began
    consumer.close()
    return seconds, in_order


def _with_bar(console: Console, what: str, items: Iterable[Item], total: int) -> Iterator[Item]:
    columns = (TextColumn(f"{what:>22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(what, total=total)
        for number, item in enumerate(items, start=1):
            yield item
            if number % 1000 == 0 or number == total:
                progress.update(task, completed=number)


def _rate(records: int, seconds: float) -> str:
    return f"{records / seconds:,.0f} records/s, {records * RECORD_BYTES / seconds / 1e6:.0f} MB/s"


def _resident_mb(pid: int) -> float | None:
    if sys.platform != "linux":
        return None
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024 / 1e6
