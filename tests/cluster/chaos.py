"""Kill, pause, cut off and fill brokers of a cluster under load, then judge what its clients saw.

    python -m tests.cluster.chaos --minutes 10 --seed 7
    python -m tests.cluster.chaos --minutes 10 --seed 7 --kafka      # the same against three nodes of Apache Kafka

Idempotent producers with acks=all write all the time, readers read, and a group commits offsets. Meanwhile one trouble
follows another (tests/cluster/troubles.py). At the end `tests.conformance.history` finds what no correct log explains.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from loadtest.kafka_cluster import ApacheKafkaCluster
from seckill.stack.broker_cluster import BrokerCluster
from seckill.stack.broker_network import NODES
from tests.cluster.troubles import EVERY_S, Trouble, Troubles
from tests.cluster.watching import PATIENCE_S, make_topic, until_in_sync
from tests.conformance.crowd import ConfluentReader, ConfluentWriter, Person, PythonReader, Reader
from tests.conformance.history import Commit, History, Sent, Span, anomalies

TOPIC, GROUP = "chaos", "chaos-committer"
PARTITIONS = 6
WRITERS = ("ann", "ben", "cid")
PAUSE_S = 0.012
"""Of each writer between two rounds over all partitions: together about 1,400 records a second."""
COMMIT_EVERY_S = 0.2
DRAIN_S = 180.0
RATE_MIN = 1000
"""Records a second, on average; a run with fewer has not shown what it should."""
GAP_KINDS = ("kill", "pause", "cut off", "cut, not heard", "cut, hears nothing")


class TimedWriter(ConfluentWriter):
    """Also remembers when each record was sent and acknowledged."""

    def __init__(self, name: str, address: str, topic: str, partitions: int) -> None:
        super().__init__(name, address, topic, partitions)
        self.began: dict[Sent, float] = {}
        self.spans: dict[Sent, Span] = {}

    def records(self) -> Iterator[Sent]:
        for number in itertools.count():
            for partition in range(self.partitions):
                if self.enough.is_set():
                    return
                sent = Sent(self.name, partition, number)
                self.began[sent] = time.monotonic()
                yield sent
            time.sleep(PAUSE_S)

    def _hear(self, sent: Sent, error: KafkaError | None, message: Message) -> None:
        super()._hear(sent, error, message)
        began = self.began.pop(sent)
        if error is None:
            self.spans[sent] = Span(began, time.monotonic())


PASSING = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR,
    KafkaError.REQUEST_TIMED_OUT,
}  # fmt: skip
"""What a coordinator may answer while another broker takes its place. librdkafka does not call them retriable."""


class Committer(Person):
    """The only member of its group: commits growing offsets, and asks for them in between."""

    def __init__(self, address: str) -> None:
        super().__init__("fay")
        self.address = address
        self.commits: list[Commit] = []

    def act(self) -> None:
        consumer = Consumer(
            {"bootstrap.servers": self.address, "group.id": GROUP, "enable.auto.commit": False, "log_level": 0,
             "reconnect.backoff.max.ms": 500}
        )  # fmt: skip
        for offset in itertools.count(1):
            if self.enough.wait(COMMIT_EVERY_S):
                break
            place = TopicPartition(TOPIC, offset % PARTITIONS, offset)
            self.commits.append(Commit("begun", place.partition, offset))
            try:
                done = consumer.commit(offsets=[place], asynchronous=False)
                if done and done[0].error is None:
                    self.commits.append(Commit("confirmed", place.partition, offset))
                [found] = consumer.committed([TopicPartition(TOPIC, place.partition)], timeout=10)
                if found.error is None:
                    self.commits.append(Commit("found", place.partition, max(found.offset, -1)))
            except KafkaException as fault:  # codes below 0 are of the client itself
                assert fault.args[0].code() < 0 or fault.args[0].code() in PASSING, fault
        consumer.close()


def longest_gaps(past: Sequence[Trouble], writers: Sequence[TimedWriter], kind: str) -> list[float]:
    """For each trouble of this kind: the longest time without an acknowledgement of a partition that the node led."""
    acked: dict[int, list[float]] = {partition: [] for partition in range(PARTITIONS)}
    for writer in writers:
        for sent, span in writer.spans.items():
            acked[sent.partition].append(span.acked)
    ends = [trouble.at for trouble in past[1:]] + [float("inf")]
    gaps = []
    for trouble, end in zip(past, ends, strict=True):
        for partition in trouble.led if trouble.kind == kind else ():
            times = sorted(moment for moment in acked[partition] if trouble.at - 1 < moment < end)
            gaps += [max(after - before for before, after in pairwise(times))] if times[1:] else []
    return gaps


def run(cluster: BrokerCluster, seconds: float, seed: int, tell: Callable[[str], None]) -> list[str]:
    """What is wrong; empty if nothing is."""
    make_topic(cluster, TOPIC, PARTITIONS)
    until_in_sync(cluster, TOPIC, set(NODES))
    where = (cluster.address, TOPIC, PARTITIONS)
    writers = [TimedWriter(name, *where) for name in WRITERS]
    readers: list[Reader] = [ConfluentReader("dan", *where), PythonReader("eve", *where)]
    committer = Committer(cluster.address)
    for person in (*writers, *readers, committer):
        person.start()
    troubles = Troubles(cluster, TOPIC, seed, tell)
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        time.sleep(EVERY_S)
        troubles.make_one()
        for person in (*writers, *readers, committer):
            if person.fault is not None:
                raise person.fault
    until_in_sync(cluster, TOPIC, set(NODES))
    for worker in (*writers, committer):
        worker.finish(DRAIN_S)
    took_s = time.monotonic() - began
    history = read_everything(cluster, readers)
    history.commits[GROUP] = committer.commits
    for writer in writers:
        history.acked |= writer.acked
        history.unknown |= writer.unknown
        history.refused |= writer.refused
        history.spans = {**history.spans, **writer.spans}
    rate = len(history.acked) / took_s
    confirmed = sum(commit.kind == "confirmed" for commit in committer.commits)
    tell(f"{len(troubles.past)} troubles: {troubles.summary()}")
    tell(f"{len(history.acked)} records acknowledged ({rate:.0f}/s), {len(history.unknown)} given up, "
         f"{confirmed} offsets committed")  # fmt: skip
    for kind in GAP_KINDS:
        gaps = longest_gaps(troubles.past, writers, kind)
        if len(gaps) > 1:
            tell(f"without acknowledgement after “{kind}”: {len(gaps)} times, median {median(gaps):.2f} s, "
                 f"p99 {quantiles(gaps, n=100, method='inclusive')[98]:.2f} s, longest {max(gaps):.2f} s")  # fmt: skip
    found = anomalies(history)
    wrong = [f"{kind}: {len(lines)}, first {lines[0]}" for kind, lines in found.items()]
    return wrong + troubles.did_not_bite() + ([] if confirmed else ["no offset was committed"])


def read_everything(cluster: BrokerCluster, readers: Sequence[Reader]) -> History:
    auditor = ConfluentReader("gil", cluster.address, TOPIC, PARTITIONS)
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
    parser.add_argument("--minutes", type=float, default=10.0, help="how long there are troubles (10)")
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
        cluster = make(folder, has_network=True)
        try:
            found = run(cluster.start(), options.minutes * 60, seed, tell)
        finally:
            cluster.kill()
    for line in found:
        tell(f"FAIL {line}")
    tell("FAIL" if found else "PASS: what the clients saw is what one correct log explains")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
