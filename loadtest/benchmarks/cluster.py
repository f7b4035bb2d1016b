"""Three brokers beside three nodes of Apache Kafka, in one run.

    python -m loadtest.benchmarks.cluster --markdown docs/generated/benchmark-cluster.md

Both have three replicas of each partition, `min.insync.replicas=2`, acks=all and their default timeouts. The load
generators are those of the broker's benchmark. Each round starts one cluster after the other and lets it warm up until
its rates no longer grow, because a Java machine compiles its code while it works.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient

from loadtest.benchmarks import machine
from loadtest.benchmarks.broker.measurement import run_job
from loadtest.benchmarks.broker.peers import KAFKA_JVM
from loadtest.benchmarks.broker.report import KAFKA, OURS, Measured
from loadtest.benchmarks.broker.rows import LESS, MORE, Figure
from loadtest.kafka_cluster import ApacheKafkaCluster, ApacheKafkaNode
from loadtest.kafka_jars import KAFKA_VERSION
from seckill.config.kafka_clients import client_options
from seckill.stack.broker_cluster import BrokerCluster, ClusterNode
from seckill.stack.broker_network import NODES
from seckill.stack.child_processes import cpu_seconds, wait_until

PARTITIONS = 12
PATIENCE_S = 60.0
WARM_UPS_MAX = 8
STILL_WARMING = 1.1
"""A load is repeated until its rate is below this multiple of the best one before."""
LATENCY_TIMES = 2.5  # latencies need a longer measurement than rates
PROBE_EVERY_S = 0.01
FREE_GB_MIN = 40  # a round of five-second measurements writes up to 26 GB

PRODUCE = ("librdkafka-produce", {"size": 1024, "partitions": PARTITIONS, "acks": "all"})
PRODUCE_LARGE = ("librdkafka-produce", {"size": 10240, "partitions": PARTITIONS, "acks": "all"})
UNBATCHED = ("raw-produce", {"size": 100, "batch": 1, "connections": 64, "partitions": PARTITIONS, "acks": "all"})
CONSUME = ("librdkafka-consume", {"size": 1024, "partitions": PARTITIONS})
LATENCY = ("latency", {"size": 1024, "acks": "all", "rate": 2000})

ROWS = (
    Figure("start", "cold start, until three brokers are listed", "s", "", LESS, 0.15),
    Figure("produce", "produce 1 KB, librdkafka, 12 partitions", "MB/s", "mb_per_s", MORE, 1.0),
    Figure("cpu", "CPU of all brokers, produce 1 KB", "s/GB", "broker_s_per_gb", LESS, 0.75),
    Figure("produce-large", "produce 10 KB, librdkafka, 12 partitions", "MB/s", "mb_per_s", MORE, 1.0),
    Figure("unbatched", "one 100 B record a request, 64 connections", "requests/s", "per_s", MORE, 0.6),
    Figure("consume", "consume 1 KB, librdkafka, 12 partitions", "MB/s", "mb_per_s", MORE, 0.95),
    Figure("p50", "end to end at 2,000/s, p50", "ms", "p50", LESS, 1.2),
    Figure("p99", "end to end at 2,000/s, p99", "ms", "p99", LESS, 1.0),
    Figure("memory", "memory of all brokers, after all loads", "MB", "", LESS, 0.15),
    Figure("leader", "leader killed, until a record sent afterwards is acknowledged", "s", "", LESS, 0.5),
    Figure("controller", "controller killed, until a topic can be created", "s", "", LESS, 0.5),
)


class FullSizeKafka(ApacheKafkaNode):
    jvm = KAFKA_JVM


class KafkaCluster(ApacheKafkaCluster):
    def make_node(self, number: int, folder: Path, settings: Any, port: int, controller_port: int) -> ClusterNode:
        return FullSizeKafka(number, folder, settings, port, controller_port)


KINDS: dict[str, type[BrokerCluster]] = {OURS: BrokerCluster, KAFKA: KafkaCluster}


# ── one round of one cluster ─────────────────────────────────────────────────────────────────────


class Round:
    """The measurements between a cold start and the end of a cluster."""

    def __init__(self, kind: str, folder: Path, seconds: float, rows: dict[str, Measured]) -> None:
        self.kind = kind
        self.seconds = seconds
        self._rows = rows
        self._cluster = KINDS[kind](folder)
        self._topics = 0

    def run(self) -> None:
        with self._running():
            self._warm_up()
            topic = self._load(PRODUCE, "produce", "cpu")
            self._load(PRODUCE_LARGE, "produce-large")
            self._load(UNBATCHED, "unbatched")
            self._load((CONSUME[0], {**CONSUME[1], "records": self._records(topic)}), "consume", topic=topic)
            self._load((LATENCY[0], {**LATENCY[1], "seconds": self.seconds * LATENCY_TIMES}), "p50", "p99")
            self._rows["memory"].add(self.kind, sum(machine.proportional_mb(node.pid) for node in self._nodes))
            self._rows["leader"].add(self.kind, self._leader_fail_over())
            self._rows["controller"].add(self.kind, self._controller_fail_over())

    @contextmanager
    def _running(self) -> Iterator[None]:
        for node in self._nodes:
            node.format(founder=node.number == NODES[0])
        began = time.perf_counter()
        try:
            for node in self._nodes:
                node.launch()
            wait_until(lambda: self._listed() == len(NODES), "three brokers", PATIENCE_S, poll_s=0.02)
            self._rows["start"].add(self.kind, time.perf_counter() - began)
            yield
        finally:
            self._cluster.kill()

    def _warm_up(self) -> None:
        for name, spec in (PRODUCE, UNBATCHED, LATENCY):
            best = 0.0
            for _ in range(WARM_UPS_MAX):
                result = self._job(name, spec, self._new_topic())
                rate = 1 / result["p50"] if name == LATENCY[0] else result["per_s"]
                if rate < STILL_WARMING * best:
                    break
                best = max(best, rate)

    def _load(self, load: tuple[str, dict[str, Any]], *keys: str, topic: str = "") -> str:
        name, spec = load
        topic = topic or self._new_topic()
        before = self._cpu_seconds()
        result = self._job(name, spec, topic)
        used = self._cpu_seconds() - before
        if result["bytes"]:
            result["broker_s_per_gb"] = used / (result["bytes"] / 1e9)
        for key in keys:
            row = self._rows[key]
            busy = (used / result["seconds"], result["client_cores"], result["rejected"])
            row.add(self.kind, result[row.figure.source], *busy)
        return topic

    def _job(self, name: str, spec: dict[str, Any], topic: str) -> dict[str, Any]:
        ports = [node.port for node in self._nodes]
        where = {"port": ports[0], "ports": ports, "topic": topic, "seconds": self.seconds}
        return run_job(name, {**where, **spec}, self.kind)

    # ── what fails over ──────────────────────────────────────────────────────────────────────────

    def _leader_fail_over(self) -> float:
        """A producer writes all the time; the first acknowledged record that was sent after the kill counts."""
        topic = self._new_topic()
        acknowledged: list[float] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                acknowledged.append(float(message.value() or b"0"))

        producer = Producer(self._client(acks="all", **{"linger.ms": 0}))
        killed_at = 0.0
        began = time.perf_counter()
        while not (killed_at and acknowledged and acknowledged[-1] > killed_at):
            if not killed_at and len(acknowledged) > 100:
                leader = self._admin().list_topics(topic, timeout=10).topics[topic].partitions[0].leader
                self._cluster.nodes[leader].kill()
                killed_at = time.perf_counter()
            producer.produce(topic, str(time.perf_counter()).encode(), partition=0, on_delivery=on_delivery)
            producer.poll(PROBE_EVERY_S)
            if time.perf_counter() - began > PATIENCE_S:
                raise TimeoutError(f"{self.kind} acknowledged nothing for {PATIENCE_S:g} s")
        took = time.perf_counter() - killed_at
        producer.flush(PATIENCE_S)
        self._bring_back(leader, topic)
        return took

    def _controller_fail_over(self) -> float:
        admin = KafkaAdminClient(**client_options(self._cluster.address))
        controller = int(admin.describe_metadata_quorum()["topics"][0]["partitions"][0]["leader_id"])
        admin.close()
        self._cluster.nodes[controller].kill()
        began = time.perf_counter()
        wait_until(self._can_create_topic, "a topic to be created", PATIENCE_S, poll_s=0.02)
        return time.perf_counter() - began

    def _can_create_topic(self) -> bool:
        self._topics += 1
        wanted, admin = NewTopic(f"after-{self._topics}", 1, 2), self._admin()  # a discarded client loses the answer
        try:
            admin.create_topics([wanted], request_timeout=1)[wanted.topic].result(PATIENCE_S)
        except KafkaException:
            return False
        return True

    def _bring_back(self, number: int, topic: str) -> None:
        self._cluster.nodes[number].start()

        def in_sync() -> bool:
            try:
                found = self._admin().list_topics(topic, timeout=5).topics[topic]
            except KafkaException:
                return False
            return all(len(each.isrs) == len(NODES) for each in found.partitions.values())

        wait_until(in_sync, "the replicas to be in sync", PATIENCE_S)

    # ── the cluster ──────────────────────────────────────────────────────────────────────────────

    @property
    def _nodes(self) -> list[ClusterNode]:
        return list(self._cluster.nodes.values())

    def _client(self, **more: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self._cluster.address, "log_level": 0, **more}

    def _admin(self) -> AdminClient:
        return AdminClient(self._client())

    def _new_topic(self) -> str:
        """The brokers lead partitions in turns, which the raw load generator relies on."""
        self._topics += 1
        name = f"bench-{self._topics}"
        placed = [[NODES[(index + copy) % len(NODES)] for copy in range(len(NODES))] for index in range(PARTITIONS)]
        wanted = NewTopic(name, PARTITIONS, replica_assignment=placed)
        admin = self._admin()
        admin.create_topics([wanted])[name].result(PATIENCE_S)
        return name

    def _records(self, topic: str) -> int:
        consumer = Consumer(self._client(**{"group.id": "ends"}))
        places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        ends = [consumer.get_watermark_offsets(place, timeout=PATIENCE_S)[1] for place in places]
        consumer.close()
        return sum(ends)

    def _listed(self) -> int:
        try:
            return len(self._admin().list_topics(timeout=1).brokers)
        except KafkaException:
            return 0

    def _cpu_seconds(self) -> float:
        return sum(cpu_seconds(node.pid) for node in self._nodes)


# ── the page ─────────────────────────────────────────────────────────────────────────────────────


def table(rows: dict[str, Measured], about: list[str]) -> str:
    lines = ["# Three brokers beside three of Apache Kafka", "", *about, ""]
    lines += ["| | unit | mqcore | Kafka | mqcore ÷ Kafka | goal | limited by |", "|---|---|--:|--:|--:|--:|---|"]
    for row in rows.values():
        figure, ratios = row.figure, row.ratios(KAFKA)
        ours, theirs, ratio = row.middle(OURS) or 0.0, row.middle(KAFKA) or 0.0, median(ratios)
        reached = ratio >= (figure.goal or 0) if figure.better == MORE else ratio <= (figure.goal or 0)
        goal = f"{'≥' if figure.better == MORE else '≤'} {figure.goal:g} {'✓' if reached else '✗'}"
        cells = [figure.title, figure.unit, f"{ours:,.4g}", f"{theirs:,.4g}"]
        cells += [f"{ratio:.2f} ({min(ratios):.2f}–{max(ratios):.2f})", goal, row.limited_by()]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtest.benchmarks.cluster", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each measurement (5)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each cluster is measured (3)")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a terminated run stops its brokers
    rows = {figure.key: Measured(figure) for figure in ROWS}
    if shutil.disk_usage(tempfile.gettempdir()).free < FREE_GB_MIN * 1e9:
        parser.error(f"{tempfile.gettempdir()} has less than {FREE_GB_MIN} GB free; choose another place with TMPDIR")
    for number in range(options.rounds):
        for kind in KINDS if number % 2 == 0 else list(KINDS)[::-1]:
            print(f"round {number + 1} of {options.rounds}: {kind}", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(prefix="cluster-bench-") as name:  # the data of one round only
                Round(kind, Path(name), options.seconds, rows).run()
    about = [
        "Written by `python -m loadtest.benchmarks.cluster`; run it again to compare. Three replicas, acks=all,",
        "`min.insync.replicas=2`, default timeouts, both warmed up until their rates no longer grew. Medians; a ratio",
        "is taken within a round, with the lowest and the highest in brackets.",
        "",
        "All processes share the machine. With three Java processes on two cores, Kafka's end-to-end latencies vary",
        "between milliseconds and seconds from run to run: these two rows say little about Kafka on its own machines.",
        "",
        *(f"* {name}: {value}" for name, value in ({"commit": machine.commit()} | machine.hardware()).items()),
        f"* Kafka {KAFKA_VERSION}; {options.rounds} rounds, each measurement {options.seconds:g} s",
    ]
    page = table(rows, about)
    print(page)
    if options.markdown:
        options.markdown.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
