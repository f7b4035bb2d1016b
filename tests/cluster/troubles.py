"""Shell: what goes wrong with a cluster during chaos: one trouble after the other, chosen by a seed.

A trouble is over before the next one begins, so a majority works most of the time. Clients are never cut off.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from seckill.stack.broker_cluster import BrokerCluster, ClusterNode
from seckill.stack.broker_network import EVERYTHING, NODES, around, from_broker, to_broker
from seckill.stack.full_disk import full_disk
from tests.cluster.watching import leaders

EVERY_S = 5.0
AWAY_S = (1.0, 4.0)
SESSION_S = 2.5
"""Cuts and pauses last this much longer, so that a broker loses its session in some of them."""
RESETS = 5


class Trouble(NamedTuple):
    """It began while `node` led these partitions of the topic."""

    at: float
    kind: str
    node: int
    led: tuple[int, ...]


class Troubles:
    def __init__(self, cluster: BrokerCluster, topic: str, seed: int, tell: Callable[[str], None]) -> None:
        self.cluster, self.topic = cluster, topic
        self.chance = random.Random(seed)
        self.tell = tell
        self.past: list[Trouble] = []
        self.resets = 0
        self._upcoming: list[str] = []

    def make_one(self) -> None:
        """Returns when it is over. The kinds take turns, in an order that the seed decides. A broker is hit the more
        often the more partitions it leads."""
        if not self._upcoming:
            self._upcoming = self.chance.sample(list(KINDS), len(KINDS))
        kind = self._upcoming.pop()
        led_by = leaders(self.cluster, self.topic)
        node = self.cluster.nodes[self.chance.choice([each for each in led_by.values() if each in NODES] or NODES)]
        seconds = self.chance.uniform(*AWAY_S)
        led = tuple(index for index, leader in led_by.items() if leader == node.number)
        self.tell(f"{kind.rstrip(' 123')}: node {node.number}, which leads {len(led)} partitions")
        self.past.append(Trouble(time.monotonic(), kind.rstrip(" 123"), node.number, led))
        with KINDS[kind](self, node):
            time.sleep(seconds + (0 if kind.startswith("kill") else SESSION_S))
        self._restart_crashed()

    def summary(self) -> str:
        counts = Counter(trouble.kind for trouble in self.past)
        return ", ".join(f"{count} × {kind}" for kind, count in sorted(counts.items()))

    def did_not_bite(self) -> list[str]:
        """Faults that have changed nothing: then a run without anomalies proves nothing."""
        kinds = {trouble.kind for trouble in self.past}
        cut = any("cut" in kind for kind in kinds) and not self.cluster.network.count_held()
        reset = "links reset" in kinds and not self.resets
        return ["a cut held nothing back"] * cut + ["no connection was reset"] * reset

    def _restart_crashed(self) -> None:
        """Apache Kafka stops when its disk is full."""
        for node in self.cluster.nodes.values():
            if node.has_crashed():
                self.tell(f"node {node.number} has stopped by itself and is started again")
                node.kill()
                node.start()

    # ── kinds ────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def kill(self, node: ClusterNode) -> Iterator[None]:
        node.kill()
        yield
        node.start()

    @contextmanager
    def pause(self, node: ClusterNode) -> Iterator[None]:
        os.kill(node.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(node.pid, signal.SIGCONT)

    def cut_off(self, node: ClusterNode) -> AbstractContextManager[None]:
        return self.cluster.network.cut(around(node.number))

    def cut_unheard(self, node: ClusterNode) -> AbstractContextManager[None]:
        return self.cluster.network.cut(from_broker(node.number))

    def cut_deaf(self, node: ClusterNode) -> AbstractContextManager[None]:
        return self.cluster.network.cut(to_broker(node.number))

    def cut_all(self, node: ClusterNode) -> AbstractContextManager[None]:
        return self.cluster.network.cut(EVERYTHING)

    def slow(self, node: ClusterNode) -> AbstractContextManager[None]:
        return self.cluster.network.slowed(around(node.number), 0.2)

    @contextmanager
    def reset(self, node: ClusterNode) -> Iterator[None]:
        for _ in range(RESETS):
            self.resets += self.cluster.network.reset(EVERYTHING)
            time.sleep(AWAY_S[0] / RESETS)
        yield

    def fill_disk(self, node: ClusterNode) -> AbstractContextManager[None]:
        return full_disk(node.pid)


KINDS: Mapping[str, Callable[[Troubles, ClusterNode], AbstractContextManager[None]]] = {
    "kill 1": Troubles.kill,
    "kill 2": Troubles.kill,
    "kill 3": Troubles.kill,
    "pause": Troubles.pause,
    "cut off": Troubles.cut_off,
    "cut, not heard": Troubles.cut_unheard,
    "cut, hears nothing": Troubles.cut_deaf,
    "cut, all of them": Troubles.cut_all,
    "slow": Troubles.slow,
    "links reset": Troubles.reset,
    "full disk": Troubles.fill_disk,
}
"""A kill is drawn three times as often, because it is what the figures are about."""
