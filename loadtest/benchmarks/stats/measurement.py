"""Shell: starts Spark and the brokers, writes a sale into them, and counts it from each source in turn."""

from __future__ import annotations

import resource
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from loadtest.benchmarks.broker.peers import ApacheKafka, Mqcore, Peer
from loadtest.benchmarks.stats import corpus
from seckill.messaging.kafka_cluster import create_topics
from seckill.stack.child_processes import cpu_seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MIB = 1024 * 1024
MQCORE, KAFKA, PARQUET = "mqcore", "Apache Kafka", "Parquet"


class Run(NamedTuple):
    """One computation of all measures."""

    records: int
    source: str
    took_s: float
    cpu_s: float  # of Spark's Java, all threads
    java_mib: float  # the peak since this size began
    python_mib: float
    source_mib: float  # of the broker


class Bench:
    def __init__(self, folder: Path, more: Mapping[str, str], tell: Callable[[str], None]) -> None:
        self._folder, self._more, self._tell = folder, more, tell
        self._is_warm = False

    def __enter__(self) -> Self:
        from analytics import session

        began = time.monotonic()
        self._spark = session.start_session(session.LOCAL, self._folder / "spark", self._more)
        self._spark.range(1).count()
        self.start_s = time.monotonic() - began
        java = self._spark.sparkContext._jvm
        assert java is not None
        self._pid = int(java.java.lang.ProcessHandle.current().pid())
        self.java_version = str(java.java.lang.System.getProperty("java.version"))
        self.spark_version = self._spark.version
        self.heap = str(self._spark.conf.get("spark.driver.memory"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spark.stop()

    def measure(self, records: int, repeat: int, *, with_kafka: bool = False) -> list[Run]:
        """`repeat` rounds, after one that warms up Java and does not count, unless a smaller size has warmed it up."""
        from analytics import schemas, sources
        from analytics.jobs.replay import set_shuffle_partitions

        requests = corpus.requests(records)
        folder = self._folder / f"{records}-records"
        with ExitStack() as running:
            brokers = {MQCORE: self._running(running, Mqcore(folder / "mqcore"), requests)}
            if with_kafka:
                shutil.rmtree(folder / "kafka", ignore_errors=True)  # its settings have the port of an earlier run
                brokers[KAFKA] = self._running(running, ApacheKafka(folder / "kafka"), requests)
            frames: dict[str, Callable[[], DataFrame]] = {}
            for name, broker in brokers.items():
                cut = sources.find_cut(broker.address)
                if cut.records != corpus.records(requests):
                    raise SystemExit(f"{name} has {cut.records:,} records, not {corpus.records(requests):,}")
                frames[name] = lambda address=broker.address, cut=cut: schemas.parse_events(  # type: ignore[misc]
                    sources.read_batch(self._spark, address, cut)
                )
            facts = str(folder / "facts")
            if not (folder / "facts" / "_SUCCESS").exists():
                self._tell("writing the same events as Parquet …")
                frames[MQCORE]().write.mode("overwrite").parquet(facts)
            frames[PARQUET] = lambda: self._spark.read.parquet(facts)
            set_shuffle_partitions(self._spark, corpus.records(requests))
            return self._rounds(corpus.records(requests), repeat, frames, brokers)

    def _rounds(
        self, records: int, repeat: int, frames: Mapping[str, Callable[[], DataFrame]], brokers: Mapping[str, Peer]
    ) -> list[Run]:
        _forget_peak(self._pid)
        runs = []
        for number in range(0 if self._is_warm else -1, repeat):
            names = list(frames)
            for name in names if number % 2 == 0 else reversed(names):
                cpu_s, began = cpu_seconds(self._pid), time.monotonic()
                _count(frames[name]())
                took_s = time.monotonic() - began
                cpu_s = cpu_seconds(self._pid) - cpu_s
                note = "" if number >= 0 else " (warming up)"
                self._tell(f"{records:,} records, {name}: {took_s:.1f} s, {cpu_s:.1f} s of CPU{note}")
                if number >= 0:
                    python_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                    broker_mib = _peak_mib(brokers[name].pid) if name in brokers else 0.0
                    runs.append(Run(records, name, took_s, cpu_s, _peak_mib(self._pid), python_mib, broker_mib))
        self._is_warm = True
        return runs

    def _running(self, running: ExitStack, broker: Peer, requests: int) -> Peer:
        """Start the broker and write the sale into it."""
        running.callback(broker.stop)
        broker.start()
        written = broker.folder / "written"
        if not written.exists():
            self._tell(f"writing {corpus.records(requests):,} records to {broker.name} …")
            began = time.monotonic()
            create_topics(broker.address)
            corpus.write(self._spark, broker.address, requests)
            self._tell(f"written in {time.monotonic() - began:.0f} s")
            written.touch()
        return broker


def _count(frame: DataFrame) -> None:
    """Compute what a replay computes, but discard the result."""
    from analytics import sinks
    from analytics.jobs.replay import measured_frames

    frames, kept = measured_frames(frame)
    try:
        sinks.compute_measures(frames).write.format("noop").mode("overwrite").save()
    finally:
        kept.unpersist(blocking=True)


def _peak_mib(pid: int) -> float:
    """The peak of its resident memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def _forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")
