"""The timers of a simulated node, on the clock of its world."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mqcore.host import Instant, Timer
from mqcore.identity import Millis

if TYPE_CHECKING:
    from tests.simulation.raft.node import Node


class NodeClock:
    """The node's timers on the clock of the world. They end with the process."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def now(self) -> Instant:
        return Instant(Millis(self._node.world.now), Millis(self._node.world.now))

    def wall_ms(self) -> Millis:
        return Millis(self._node.world.now)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        timer = NodeTimer(self._node, callback)
        self._node.world.call_later(max(0, int(delay_ms)), self._node, timer.run)
        return timer

    def call_soon(self, callback: Callable[[], None]) -> Timer:
        return self.call_later(0, callback)


class NodeTimer:
    def __init__(self, node: Node, callback: Callable[[], None]) -> None:
        self._node, self._callback = node, callback
        self._is_cancelled = False

    def cancel(self) -> None:
        self._is_cancelled = True

    def run(self) -> None:
        if not self._is_cancelled:
            with self._node.running():
                self._callback()
