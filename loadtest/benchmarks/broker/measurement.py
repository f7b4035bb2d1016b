"""Shell: starts the brokers, runs every load on each of them in turn, and reads their CPU and memory.

Within a load the brokers take turns, and the order alternates between repetitions. Each measurement has its own topic;
loads that only read share one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from loadtest.benchmarks.broker.peers import ApacheKafka, Mqcore, Peer, PeerFault, RedisStreams
from loadtest.benchmarks.broker.report import MACHINE, Measured
from loadtest.benchmarks.broker.rows import COLD_START, COPY_IN, COPY_OUT, IDLE_MEMORY, LOADED_MEMORY, Figure, Load
from loadtest.benchmarks.machine import resident_mb
from seckill.stack.child_processes import cpu_seconds

JOB_LIMIT_S = 150
LATENCY_TIMES = 2.5  # latencies need a longer measurement than rates
WARM_UP: tuple[tuple[str, dict[str, Any]], ...] = (
    ("raw-produce", {"size": 100, "connections": 64, "partitions": 12, "acks": "1", "seconds": 6.0}),
    ("librdkafka-produce", {"size": 1024, "acks": "all", "seconds": 2.0}),
    ("librdkafka-consume", {"size": 1024, "records": 200_000}),
)


class JobFault(Exception):
    """A load generator failed; the text has the end of its output."""


def present(folder: Path) -> tuple[list[Peer], list[str]]:
    """The brokers that can run here, and a note on each one that cannot."""
    peers: list[Peer] = []
    notes = []
    for kind in (Mqcore, ApacheKafka, RedisStreams):
        try:
            peers.append(kind(folder / kind.name.split()[0].lower()))
        except PeerFault as fault:
            notes.append(f"{kind.name} is missing: {fault}")
    return peers, notes


class Bench:
    def __init__(
        self, peers: Sequence[Peer], folder: Path, repeat: int, seconds: float, tell: Callable[[str], None]
    ) -> None:
        self.peers = peers
        self.rows: dict[str, Measured] = {}
        self._folder = folder
        self._repeat = repeat
        self._seconds = seconds
        self._tell = tell
        self._topics = 0
        self._half_load = 0.0
        self._admins: dict[str, Any] = {}

    def _row(self, figure: Figure) -> Measured:
        return self.rows.setdefault(figure.key, Measured(figure, cores=len(os.sched_getaffinity(0))))

    # ── life ─────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Start each broker several times to measure the start; the last instances keep running."""
        for repetition in range(self._repeat):
            for peer in self.peers:
                last = repetition == self._repeat - 1
                instance = peer if last else peer.fresh(self._folder / f"{peer.folder.name}-{repetition}")
                self._tell(f"start {peer.name}")
                try:
                    self._row(COLD_START).add(peer.name, instance.start())
                    self._row(IDLE_MEMORY).add(peer.name, resident_mb(instance.pid))
                finally:
                    if not last:
                        instance.stop()

    def warm_up(self) -> None:
        for peer in self.peers:
            if peer.speaks_kafka:
                self._tell(f"warm up {peer.name}")
                topic = ""
                for job, spec in WARM_UP:
                    if "records" not in spec:
                        topic = self._new_topic(peer, spec.get("partitions", 1), {})
                    self._job(job, peer, topic, spec)

    def finish(self) -> None:
        """Measurements that are possible only after all loads."""
        for peer in self.peers:
            self._row(LOADED_MEMORY).add(peer.name, resident_mb(peer.pid))

    def stop(self) -> None:
        for peer in self.peers:
            peer.stop()

    # ── loads ────────────────────────────────────────────────────────────────────────────────────

    def run(self, load: Load) -> None:
        if load.at_half_load and not self._half_load:
            self._half_load = self._find_half_load(load)
        peers = [peer for peer in self.peers if peer.speaks_kafka or load.redis_job]
        filled = {peer.name: self._filled_topic(peer, load) for peer in peers if load.filled}
        for repetition in range(self._repeat):
            for peer in peers if repetition % 2 == 0 else peers[::-1]:
                self._tell(f"{load.figures[0].title}: {peer.name}")
                topic = filled.get(peer.name) or self._new_topic(peer, load.spec.get("partitions", 1), load.settings)
                self._measure(load, peer, topic)
                if not load.filled:
                    self._drop(peer, topic)
        for peer in peers:
            if load.filled:
                self._drop(peer, filled[peer.name])

    def _measure(self, load: Load, peer: Peer, topic: str) -> None:
        spec = {"seconds": self._seconds, **load.spec}
        if load.job == "latency":
            spec["seconds"] = self._seconds * LATENCY_TIMES
            spec["redis"] = not peer.speaks_kafka
            if load.at_half_load:
                spec["rate"] = self._half_load
        elif not peer.speaks_kafka and load.settings:
            self._redis(peer, "CONFIG", "SET", "appendfsync", "always")
        job = load.job if peer.speaks_kafka else str(load.redis_job)
        before = cpu_seconds(peer.pid)
        result = self._job(job, peer, topic, spec)
        used = cpu_seconds(peer.pid) - before
        if not peer.speaks_kafka and load.settings:
            self._redis(peer, "CONFIG", "SET", "appendfsync", "no")
        if result["bytes"]:
            result["broker_s_per_gb"] = used / (result["bytes"] / 1e9)
        for figure in load.figures:
            self._row(figure).add(
                peer.name,
                result[figure.source],
                used / result["seconds"],
                result["client_cores"],
                result["rejected"],
            )

    def _find_half_load(self, load: Load) -> float:
        """Half the throughput of the slower Kafka broker, with this client and one partition."""
        most: list[float] = []
        for peer in self.peers:
            if peer.speaks_kafka:
                self._tell(f"find the full load: {peer.name}")
                topic = self._new_topic(peer, 1, {})
                result = self._job("latency", peer, topic, {**load.spec, "rate": 0, "seconds": self._seconds})
                most.append(result["per_s"])
                self._drop(peer, topic)
        return float(round(min(most) / 2, -2))

    @property
    def half_load(self) -> float:
        return self._half_load

    def limits(self) -> None:
        for figure, job in ((COPY_IN, "copy-in"), (COPY_OUT, "copy-out")):
            for _ in range(self._repeat):
                self._tell(figure.title)
                result = self._job(job, None, "", {"seconds": self._seconds / 2, "folder": str(self._folder)})
                self._row(figure).add(MACHINE, result["mb_per_s"])

    # ── topics ───────────────────────────────────────────────────────────────────────────────────

    def _filled_topic(self, peer: Peer, load: Load) -> str:
        topic = self._new_topic(peer, load.spec.get("partitions", 1), load.settings)
        spec = {"size": load.spec["size"], "partitions": load.spec.get("partitions", 1), "records": load.filled}
        self._tell(f"fill a topic: {peer.name}")
        self._job("librdkafka-produce" if peer.speaks_kafka else "redis-produce", peer, topic, {**spec, "acks": "1"})
        return topic

    def _new_topic(self, peer: Peer, partitions: int, settings: Any) -> str:
        self._topics += 1
        name = f"bench-{self._topics:04d}"
        if peer.speaks_kafka:
            from confluent_kafka.admin import NewTopic

            config = {"file.delete.delay.ms": "1000", **settings}
            made = self._admin(peer).create_topics([NewTopic(name, partitions, 1, config=config)])
            made[name].result(30)
        return name

    def _drop(self, peer: Peer, topic: str) -> None:
        if peer.speaks_kafka:
            self._admin(peer).delete_topics([topic])[topic].result(30)
        else:
            self._redis(peer, "UNLINK", topic)
        time.sleep(0.2)

    def _admin(self, peer: Peer) -> Any:
        from confluent_kafka.admin import AdminClient

        if peer.name not in self._admins:  # cached, because a discarded client loses its pending responses
            self._admins[peer.name] = AdminClient({"bootstrap.servers": peer.address, "log_level": 0})
        return self._admins[peer.name]

    def _redis(self, peer: Peer, *words: str) -> None:
        assert isinstance(peer, RedisStreams)
        peer.ask(*words)

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────

    def _job(self, name: str, peer: Peer | None, topic: str, spec: Any) -> dict[str, Any]:
        where = {"port": peer.port if peer else 0, "topic": topic}
        return run_job(name, {**where, **spec}, peer.name if peer else "the machine")


def run_job(name: str, spec: Any, target: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "loadtest.benchmarks.broker.jobs", name, json.dumps(spec)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=JOB_LIMIT_S)
    except subprocess.TimeoutExpired as late:
        raise JobFault(f"{name} did not end within {JOB_LIMIT_S} s") from late
    if done.returncode != 0:
        raise JobFault(f"{name} on {target} failed:\n{done.stderr[-1500:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))
