"""Kill and pause brokers of a cluster under load, then judge what its clients saw.

    python -m tests.cluster.chaos --minutes 10 --seed 7
    python -m tests.cluster.chaos --minutes 10 --seed 7 --kafka      # the same against three nodes of Apache Kafka

Idempotent producers with acks=all write all the time, readers read, and every few seconds a random broker is killed
with -9 or frozen. At the end `tests.conformance.history` looks for records that were lost, doubled, moved or reordered.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from loadtest.kafka_cluster import ApacheKafkaCluster
from seckill.stack.broker_cluster import BrokerCluster, ClusterNode
from tests.cluster.watching import PATIENCE_S, leaders, make_topic, until_in_sync
from tests.conformance.crowd import ConfluentReader, ConfluentWriter, PythonReader, Reader
from tests.conformance.history import History, Sent, anomalies

TOPIC = "chaos"
PARTITIONS = 6
WRITERS = ("ann", "ben", "cid")
TROUBLE_EVERY_S = 5.0
PAUSE_S = 0.012
"""Of each writer between two rounds over all partitions: together about 1,500 records a second."""
DRAIN_S = 180.0


class TimedWriter(ConfluentWriter):
    """Also remembers when each partition acknowledged something."""

    def __init__(self, name: str, address: str, topic: str, partitions: int) -> None:
        super().__init__(name, address, topic, partitions)
        self.times: dict[int, list[float]] = {partition: [] for partition in range(partitions)}

    def records(self) -> Iterator[Sent]:
        for number in itertools.count():
            for partition in range(self.partitions):
                if self.enough.is_set():
                    return
                yield Sent(self.name, partition, number)
            time.sleep(PAUSE_S)

    def _hear(self, sent: Sent, error: KafkaError | None, message: Message) -> None:
        super()._hear(sent, error, message)
        if error is None:
            self.times[sent.partition].append(time.monotonic())


class Death(NamedTuple):
    """A broker was killed or frozen at a moment, while it led these partitions."""

    at: float
    kind: str
    led: tuple[int, ...]


@dataclass
class Chaos:
    cluster: BrokerCluster
    chance: random.Random
    tell: Callable[[str], None]
    deaths: list[Death] = field(default_factory=list)

    def trouble(self) -> None:
        """One broker stops working for a few seconds, and comes back."""
        node = self.chance.choice(list(self.cluster.nodes.values()))
        kind = self.chance.choice(("kill", "kill", "freeze"))
        led = tuple(index for index, leader in leaders(self.cluster, TOPIC).items() if leader == node.number)
        self.tell(f"{kind} node {node.number}, which leads {len(led)} partitions")
        self.deaths.append(Death(time.monotonic(), kind, led))
        away_s = self.chance.uniform(1.0, 4.0)
        if kind == "kill":
            node.kill()
            time.sleep(away_s)
            node.start()
        else:
            self._freeze(node, away_s + 2.0)

    def _freeze(self, node: ClusterNode, seconds: float) -> None:
        os.kill(node.pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(node.pid, signal.SIGCONT)


def longest_gaps(deaths: list[Death], writers: list[TimedWriter], kind: str) -> list[float]:
    """For each death of a leader: the longest time without an acknowledgement of a partition that it led."""
    gaps = []
    for number, death in enumerate(deaths):
        if death.kind != kind:
            continue
        until = deaths[number + 1].at if number + 1 < len(deaths) else death.at + DRAIN_S
        for partition in death.led:
            times = sorted(
                moment for writer in writers for moment in writer.times[partition] if death.at - 1 < moment < until
            )
            gaps += [max(after - before for before, after in pairwise(times))] if times[1:] else []
    return gaps


def run(cluster: BrokerCluster, seconds: float, seed: int, tell: Callable[[str], None]) -> list[str]:
    """What is wrong; empty if nothing is."""
    make_topic(cluster, TOPIC, PARTITIONS)
    until_in_sync(cluster, TOPIC, {1, 2, 3})
    where = (cluster.address, TOPIC, PARTITIONS)
    writers = [TimedWriter(name, *where) for name in WRITERS]
    readers: list[Reader] = [ConfluentReader("dan", *where), PythonReader("eve", *where)]
    for person in (*writers, *readers):
        person.start()
    chaos = Chaos(cluster, random.Random(seed), tell)
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        time.sleep(TROUBLE_EVERY_S)
        chaos.trouble()
        for person in (*writers, *readers):
            if person.fault is not None:
                raise person.fault
    until_in_sync(cluster, TOPIC, {1, 2, 3})
    for writer in writers:
        writer.finish(DRAIN_S)
    history = read_everything(cluster, readers)
    for writer in writers:
        history.acked |= writer.acked
        history.unknown |= writer.unknown
    rate = len(history.acked) / (time.monotonic() - began)
    tell(f"{len(history.acked)} acknowledged ({rate:.0f}/s), {len(history.unknown)} given up")
    for kind in ("kill", "freeze"):
        gaps = longest_gaps(chaos.deaths, writers, kind)
        if len(gaps) > 1:
            tell(f"without acknowledgement after a {kind}: {len(gaps)} times, median {median(gaps):.2f} s, "
                 f"p99 {quantiles(gaps, n=100)[98]:.2f} s, longest {max(gaps):.2f} s")  # fmt: skip
    found = anomalies(history)
    return [f"{kind}: {len(lines)}, first {lines[0]}" for kind, lines in found.items()]


def read_everything(cluster: BrokerCluster, readers: Sequence[Reader]) -> History:
    auditor = ConfluentReader("fay", cluster.address, TOPIC, PARTITIONS)
    asking = Consumer({"bootstrap.servers": cluster.address, "group.id": "chaos-ends", "log_level": 0})
    ends = {
        index: asking.get_watermark_offsets(TopicPartition(TOPIC, index), timeout=PATIENCE_S)[1]
        for index in range(PARTITIONS)
    }
    asking.close()
    auditor.start()
    for reader in (*readers, auditor):
        reader.ends = ends
        reader.finish(DRAIN_S)
    return History(log=dict(auditor.seen), seen={reader.name: reader.seen for reader in readers})


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.chaos", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="how long brokers are killed (10)")
    parser.add_argument("--seed", type=int, default=None, help="repeat the troubles of an earlier run")
    parser.add_argument("--kafka", action="store_true", help="three nodes of Apache Kafka instead of mqcore")
    parser.add_argument("--keep", type=Path, help="keep data and logs in this folder")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    began = time.monotonic()

    def tell(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    tell(f"seed {seed}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        make = ApacheKafkaCluster if options.kafka else BrokerCluster
        cluster = make(folder).start()
        try:
            found = run(cluster, options.minutes * 60, seed, tell)
        finally:
            cluster.kill()
    for line in found:
        tell(f"FAIL {line}")
    tell("FAIL" if found else "PASS: nothing lost, doubled, moved or reordered")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
