"""Shell: what an experiment asks the brokers of its stack: leaders, in-sync replicas, the controller, the voters."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kafka import KafkaAdminClient

from seckill.config.kafka_clients import client_options
from seckill.messaging.topics import PURCHASE_REQUESTS
from seckill.stack import mqcore_brokers
from seckill.stack.control import StackFault
from seckill.stack.services import Layout

REQUEST_MS_MAX = 3000
BOOTSTRAP_MS_MAX = 10_000

Place = tuple[str, int]


class Partition(NamedTuple):
    """`leader` is −1 if no broker leads it."""

    leader: int
    leader_epoch: int
    in_sync: frozenset[int]


class Quorum(NamedTuple):
    """The brokers that keep the metadata. Each voter has the id of the folder with which it votes."""

    controller: int
    epoch: int
    voters: dict[int, str]
    observers: frozenset[int]


class Brokers:
    """Each call opens a connection of its own, because an experiment stops brokers. Each raises `KafkaError` if no
    broker answers. `spared` are brokers that are not asked, because they are frozen."""

    service = "mqcore"

    def __init__(self, layout: Layout) -> None:
        self.count = layout.brokers
        self._port = layout.ports.broker
        self._folder = layout.folder / "mqcore"

    @property
    def numbers(self) -> range:
        return range(1, self.count + 1)

    def process(self, number: int) -> str:
        return mqcore_brokers.process_name(self.count, number)

    def folder(self, number: int) -> Path:
        return mqcore_brokers.data_folder(self._folder, self.count, number)

    def address(self, number: int) -> str:
        return mqcore_brokers.address(self._port, number)

    def stored_bytes(self, number: int) -> int:
        """The size of all records that a broker has stored."""
        return sum(path.stat().st_size for path in self.folder(number).glob("*/*.log"))

    def format_lost_folders(self) -> None:
        mqcore_brokers.format_folders(self._folder, self.count)

    # ── what they answer ─────────────────────────────────────────────────────────────────────────

    def partitions(self, spared: Collection[int] = ()) -> dict[Place, Partition]:
        """Every partition of every topic, those of groups included."""
        with self._admin(spared) as admin:
            described = admin.describe_topics()
        return {
            (topic["name"], each["partition_index"]): Partition(
                each["leader_id"], each["leader_epoch"], frozenset(each["isr_nodes"])
            )
            for topic in described
            for each in topic["partitions"]
        }

    def leading(self) -> tuple[int, int]:
        """The broker that leads most partitions of purchase requests, and how many it leads."""
        found = ((topic, each.leader) for (topic, _), each in self.partitions().items())
        leaders = [leader for topic, leader in found if topic == PURCHASE_REQUESTS.name and leader in self.numbers]
        [(number, count)] = Counter(leaders).most_common(1)
        return number, count

    def are_in_sync(self) -> bool:
        """Whether every partition has a leader and all of its replicas in sync."""
        found = self.partitions().values()
        return all(each.leader in self.numbers and len(each.in_sync) == self.count for each in found)

    def quorum(self, spared: Collection[int] = ()) -> Quorum:
        with self._admin(spared) as admin:
            described = admin.describe_metadata_quorum()
        [found] = described["topics"][0]["partitions"]
        return Quorum(
            found["leader_id"],
            found["leader_epoch"],
            {each["replica_id"]: str(each["replica_directory_id"]) for each in found["current_voters"]},
            frozenset(each["replica_id"] for each in found["observers"]),
        )

    def adopt(self, number: int) -> None:
        """Let a broker with a new folder vote. `StackFault` if it may not."""
        bootstrap = self.address(next(each for each in self.numbers if each != number))
        words = ["quorum", "adopt", "--bootstrap-server", bootstrap, "--node-id", str(number)]
        done = subprocess.run([sys.executable, "-m", "mqcore", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise StackFault(f"broker {number} was not adopted: {done.stderr.strip()}")

    @contextmanager
    def _admin(self, spared: Collection[int]) -> Iterator[Any]:
        admin = KafkaAdminClient(
            **client_options([self.address(number) for number in self.numbers if number not in spared]),
            request_timeout_ms=REQUEST_MS_MAX,
            bootstrap_timeout_ms=BOOTSTRAP_MS_MAX,
        )
        try:
            yield admin
        finally:
            admin.close()
