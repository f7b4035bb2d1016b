"""Three brokers beside three nodes of Apache Kafka, in one run.

    python -m loadtest.benchmarks.cluster --markdown docs/generated/benchmark-cluster.md

Both have three replicas of each partition, `min.insync.replicas=2`, and their default timeouts. One client, librdkafka,
writes and reads. Each round measures one cluster after the other; the page shows the median of the rounds.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from loadtest.benchmarks import machine
from loadtest.benchmarks.broker.peers import KAFKA_JVM
from loadtest.kafka_cluster import ApacheKafkaCluster, ApacheKafkaNode
from loadtest.kafka_jars import KAFKA_VERSION
from seckill.stack.broker_cluster import BrokerCluster, ClusterNode
from seckill.stack.child_processes import wait_until

PARTITIONS = 12
PATIENCE_S = 60.0
PACE_PER_S = 2000
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

ROWS: dict[str, tuple[str, str, float, bool]] = {
    "start": ("cold start until three brokers are listed", "s", 0.15, False),
    "kb": ("records of 1 KB, acks=all, 12 partitions", "records/s", 1.0, True),
    "cpu": ("CPU of all brokers for it", "s/GB", 0.75, False),
    "single": ("one record of 100 bytes in each request, acks=all", "requests/s", 0.6, True),
    "p50": ("end to end at 2,000 a second, acks=all: median", "ms", 1.2, False),
    "p99": ("end to end at 2,000 a second, acks=all: 99 %", "ms", 1.0, False),
    "failover": ("leader killed: until its partition acknowledges again", "s", 0.5, False),
    "memory": ("memory of all brokers after the load", "MB", 0.15, False),
}
"""Title, unit, the ratio to Kafka that we aim for, and whether more is better."""


class FullSizeKafka(ApacheKafkaNode):
    jvm = KAFKA_JVM


class KafkaCluster(ApacheKafkaCluster):
    def make_node(self, number: int, folder: Path, settings: Any, port: int, controller_port: int) -> ClusterNode:
        return FullSizeKafka(number, folder, settings, port, controller_port)


KINDS: dict[str, type[BrokerCluster]] = {"mqcore": BrokerCluster, "Kafka": KafkaCluster}


def settings_of(cluster: BrokerCluster, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": cluster.address, "log_level": 0, **more}


@contextmanager
def running(kind: str, folder: Path, figures: dict[str, list[float]]) -> Iterator[BrokerCluster]:
    cluster = KINDS[kind](folder)
    for number, node in cluster.nodes.items():
        node.format(founder=number == 1)
    began = time.perf_counter()
    try:
        for node in cluster.nodes.values():
            node.launch()
        wait_until(lambda: brokers_listed(cluster) == len(cluster.nodes), "three brokers", PATIENCE_S, poll_s=0.02)
        figures["start"].append(time.perf_counter() - began)
        yield cluster
    finally:
        cluster.kill()


def brokers_listed(cluster: BrokerCluster) -> int:
    try:
        return len(AdminClient(settings_of(cluster)).list_topics(timeout=1).brokers)
    except KafkaException:
        return 0


def make_topic(cluster: BrokerCluster, topic: str, partitions: int) -> None:
    admin = AdminClient(settings_of(cluster))
    admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(PATIENCE_S)
    produce_for(cluster, topic, 0.3, b"warm up", {})


def produce_for(cluster: BrokerCluster, topic: str, seconds: float, value: bytes, more: dict[str, Any]) -> float:
    """Acknowledged records a second."""
    faults: list[object] = []

    def on_delivery(error: object, message: object) -> None:
        if error is not None:
            faults.append(error)

    producer = Producer(settings_of(cluster, acks="all", **{"queue.buffering.max.messages": 100_000}, **more))
    began, sent = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for _ in range(100):
            try:
                producer.produce(topic, value, on_delivery=on_delivery)
                sent += 1
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0 and not faults, faults[:3]
    return sent / (time.perf_counter() - began)


def cpu_seconds(cluster: BrokerCluster) -> float:
    fields = (Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split() for node in cluster.nodes.values())
    return sum(int(each[11]) + int(each[12]) for each in fields) / TICKS_PER_S


def memory_mb(cluster: BrokerCluster) -> float:
    lines = (Path(f"/proc/{node.pid}/smaps_rollup").read_text() for node in cluster.nodes.values())
    return sum(int(each.split("Pss:")[1].split()[0]) for each in lines) / 1000


def latencies_ms(cluster: BrokerCluster, topic: str, seconds: float) -> list[float]:
    producer = Producer(settings_of(cluster, acks="all", **{"linger.ms": 0}))
    consumer = Consumer(settings_of(cluster, **{"group.id": "latency", "fetch.wait.max.ms": 100}))
    consumer.assign([TopicPartition(topic, index, OFFSET_END) for index in range(PARTITIONS)])
    consumer.poll(3.0)  # a consumer that has just begun looks for the ends of the partitions first
    found: list[float] = []
    began, sent = time.perf_counter(), 0
    while (now := time.perf_counter()) - began < seconds:
        while sent < (now - began) * PACE_PER_S:
            producer.produce(topic, str(time.perf_counter()).encode())
            sent += 1
        producer.poll(0)
        for message in consumer.consume(1000, timeout=0.001):
            if message.error() is None and now - began > seconds / 4:
                found.append(1000 * (time.perf_counter() - float(message.value() or b"0")))
    producer.flush(PATIENCE_S)
    consumer.close()
    return found


def fail_over_seconds(cluster: BrokerCluster, topic: str) -> float:
    """From kill -9 of the leader until its partition has acknowledged a record that was sent afterwards."""
    leader = AdminClient(settings_of(cluster)).list_topics(topic, timeout=10).topics[topic].partitions[0].leader
    producer = Producer(settings_of(cluster, acks="all", **{"linger.ms": 0}))
    acknowledged: list[float] = []
    cluster.nodes[leader].kill()
    began = time.perf_counter()
    producer.produce(topic, b"after", partition=0, on_delivery=lambda error, _: acknowledged.append(error is None))
    producer.flush(PATIENCE_S)
    took = time.perf_counter() - began
    assert acknowledged == [True]
    cluster.nodes[leader].start()
    wait_until(lambda: in_sync(cluster, topic) == len(cluster.nodes), "the replicas to be in sync", PATIENCE_S)
    return took


def in_sync(cluster: BrokerCluster, topic: str) -> int:
    try:
        found = AdminClient(settings_of(cluster)).list_topics(topic, timeout=5).topics[topic]
        return min(len(each.isrs) for each in found.partitions.values())
    except KafkaException:
        return 0


def measure(kind: str, folder: Path, seconds: float, figures: dict[str, list[float]]) -> None:
    with running(kind, folder, figures) as cluster:
        make_topic(cluster, "bench", PARTITIONS)
        produce_for(cluster, "bench", seconds, bytes(1000), {})  # so that both have compiled or cached what they need
        before = cpu_seconds(cluster)
        rate = produce_for(cluster, "bench", seconds, bytes(1000), {})
        figures["kb"].append(rate)
        figures["cpu"].append((cpu_seconds(cluster) - before) / (rate * seconds * 1000 / 1e9))
        alone = {"batch.num.messages": 1, "linger.ms": 0, "max.in.flight.requests.per.connection": 64}
        figures["single"].append(produce_for(cluster, "bench", seconds, bytes(100), alone))
        make_topic(cluster, "latency", PARTITIONS)
        found = latencies_ms(cluster, "latency", 2 * seconds)
        figures["p50"].append(median(found))
        figures["p99"].append(quantiles(found, n=100)[98])
        figures["memory"].append(memory_mb(cluster))
        figures["failover"].append(fail_over_seconds(cluster, "latency"))


def table(results: dict[str, dict[str, list[float]]], about: list[str]) -> str:
    lines = ["# Three brokers beside three of Apache Kafka", "", *about, ""]
    lines += ["| | unit | mqcore | Kafka | ratio | goal |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    for row, (title, unit, goal, more_is_better) in ROWS.items():
        ours, theirs = (median(results[kind][row]) for kind in KINDS)
        sign = "≥" if more_is_better else "≤"
        lines.append(f"| {title} | {unit} | {ours:,.2f} | {theirs:,.2f} | **{ours / theirs:.2f}** | {sign} {goal:g} |")
    return "\n".join([*lines, ""])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtest.benchmarks.cluster", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each measurement (5)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each cluster is measured (3)")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    options = parser.parse_args()
    results: dict[str, dict[str, list[float]]] = {kind: {row: [] for row in ROWS} for kind in KINDS}
    tell: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
    with tempfile.TemporaryDirectory(prefix="cluster-bench-") as name:
        for number in range(options.rounds):
            for kind in KINDS:
                tell(f"round {number + 1} of {options.rounds}: {kind}")
                measure(kind, Path(name) / f"{kind}-{number}", options.seconds, results[kind])
    about = [f"{name}: {value}.  " for name, value in ({"commit": machine.commit()} | machine.hardware()).items()]
    about.append(f"Kafka {KAFKA_VERSION}, {options.rounds} rounds of {options.seconds:g} s, medians.")
    page = table(results, about)
    print(page)
    if options.markdown:
        options.markdown.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
