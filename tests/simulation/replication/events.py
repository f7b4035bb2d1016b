"""Virtual time: events in order, nodes that can be killed and paused, and a hash over everything that happens."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable
from random import Random

from mqcore.identity import Millis


class Node:
    """A process. What it has scheduled dies with it; while it is paused, everything that reaches it waits in order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.life = 0  # rises with each start
        self.is_running = False
        self.is_paused = False
        self.backlog: list[tuple[int, Callable[[], None]]] = []

    def run(self, life: int, action: Callable[[], None]) -> None:
        if not self.is_running or life != self.life:
            return
        if self.is_paused:
            self.backlog.append((life, action))
        else:
            action()

    def resume(self) -> None:
        self.is_paused = False
        backlog, self.backlog = self.backlog, []
        for life, action in backlog:
            self.run(life, action)


class Events:
    def __init__(self, seed: int) -> None:
        self.now = Millis(0)
        self.count = 0
        self.chance = Random(seed)  # delays; other concerns have their own generators
        self.after_each: Callable[[], None] = lambda: None
        self._heap: list[tuple[int, int, str, Callable[[], None]]] = []
        self._number = 0
        self._trace = hashlib.sha256()

    def at(self, delay_ms: float, label: str, action: Callable[[], None], node: Node | None = None) -> None:
        """Run `action` later, on `node` unless it has died by then."""
        self._number += 1
        if node is not None:
            action = _bound(node, node.life, action)
        heapq.heappush(self._heap, (int(self.now + max(0.0, delay_ms)), self._number, label, action))

    def note(self, what: object) -> None:
        """Add a fact to the trace."""
        self._trace.update(f"{self.now} {what}\n".encode())

    @property
    def trace_hash(self) -> str:
        return self._trace.hexdigest()[:16]

    def run_until(self, end_ms: int) -> None:
        while self._heap and self._heap[0][0] <= end_ms:
            when, _, label, action = heapq.heappop(self._heap)
            self.now = Millis(when)
            self.count += 1
            self.note(label)
            action()
            self.after_each()
        self.now = Millis(end_ms)


def _bound(node: Node, life: int, action: Callable[[], None]) -> Callable[[], None]:
    return lambda: node.run(life, action)
