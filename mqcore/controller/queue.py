"""Shell: the controller as others see it: commands go in, and are decided one at a time.

The next command is decided when the facts of the one before are committed. So no more than one batch of the metadata
log is not yet durable, and what a power loss tears is always its very end: it can be told from corruption and cut.
With two it could not (the first may be lost and the second not), and the broker would not start by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from mqcore.clock import Clock
from mqcore.controller.commands import ControllerAnswer, ControllerCommand
from mqcore.controller.facts import MetadataFact
from mqcore.controller.machine import ControllerMachine
from mqcore.coordination.journal import Journal, JournalFault
from mqcore.coordination.runner import Runner, Waiter


class Controller:
    def __init__(self, machine: ControllerMachine, journal: Journal[MetadataFact], clock: Clock) -> None:
        self.machine = machine
        self._runner = Runner[ControllerCommand, MetadataFact, ControllerAnswer](machine, journal, clock)
        self._waiting: deque[tuple[ControllerCommand, Waiter[ControllerAnswer]]] = deque()
        self._under_way = False
        self._looping = False
        self._pauses = 0

    def pause(self) -> Callable[[], None]:
        """Decide no further command until the returned function is called (once)."""
        self._pauses += 1

        def resume() -> None:
            self._pauses -= 1
            self._go_on()

        return resume

    def submit(self, command: ControllerCommand, waiter: Waiter[ControllerAnswer]) -> None:
        """`waiter` is called exactly once, now or later."""
        self._waiting.append((command, waiter))
        self._go_on()

    def _go_on(self) -> None:
        """A loop, not a recursion: answers may come at once, and then thousands in a row."""
        if self._looping:
            return
        self._looping = True
        try:
            while self._waiting and not self._under_way and not self._pauses:
                command, waiter = self._waiting.popleft()
                self._under_way = True
                self._runner.submit(command, self._then_go_on(waiter))
        finally:
            self._looping = False

    def _then_go_on(self, waiter: Waiter[ControllerAnswer]) -> Waiter[ControllerAnswer]:
        def answered(answer: ControllerAnswer | JournalFault) -> None:
            self._under_way = False
            try:
                waiter(answer)
            finally:
                self._go_on()

        return answered
