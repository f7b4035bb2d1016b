"""Shell: the controller's queue: commands go in and are decided one at a time.

The next command is decided when the facts of the previous one are committed. So at most one batch of the metadata log
is not durable yet, and whatever a power loss tears is the very end of the log, which recovery can cut. With two batches
in flight the first could be lost while the second survives; recovery could not tell that from corruption, and the
broker would not start without an operator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from mqcore.controller.commands import ControllerAnswer, ControllerCommand
from mqcore.controller.facts import ControllerFact
from mqcore.coordination.decision import Machine
from mqcore.coordination.journal import Journal, JournalFault
from mqcore.coordination.runner import OnAnswer, Runner
from mqcore.host import Clock


class CommandTarget(Protocol):
    """Takes commands. `on_answer` is called exactly once, now or later."""

    @property
    def is_active(self) -> bool:
        """Whether the active controller is on this node."""
        ...

    def submit(self, command: ControllerCommand, on_answer: OnAnswer[ControllerAnswer]) -> None: ...


class Controller:
    is_active = True

    def __init__(
        self,
        machine: Machine[ControllerCommand, ControllerFact, ControllerAnswer],
        journal: Journal[ControllerFact],
        clock: Clock,
    ) -> None:
        self.machine = machine
        self._runner = Runner[ControllerCommand, ControllerFact, ControllerAnswer](machine, journal, clock)
        self._queue: deque[tuple[ControllerCommand, OnAnswer[ControllerAnswer]]] = deque()
        self._current: OnAnswer[ControllerAnswer] | None = None  # the caller of the command that is being decided
        self._is_looping = False
        self._is_stopped = False
        self._pauses = 0

    def pause(self) -> Callable[[], None]:
        """Decide no further command until the returned function is called. It must be called once."""
        self._pauses += 1

        def resume() -> None:
            self._pauses -= 1
            self._decide_next()

        return resume

    def submit(self, command: ControllerCommand, on_answer: OnAnswer[ControllerAnswer]) -> None:
        """`on_answer` is called exactly once, now or later."""
        self._queue.append((command, on_answer))
        self._decide_next()

    def stop(self, fault: JournalFault) -> None:
        """Stop for good: all commands that wait, and all later ones, get the fault."""
        self._is_stopped = True
        self._runner.stop(fault)
        self._decide_next()

    def _decide_next(self) -> None:
        """Loops instead of recursing, because thousands of queued commands may be answered immediately."""
        if self._is_looping:
            return
        self._is_looping = True
        try:
            while self._queue and self._current is None and (self._is_stopped or not self._pauses):
                command, self._current = self._queue.popleft()
                self._runner.submit(command, self._on_answer)
        finally:
            self._is_looping = False

    def _on_answer(self, answer: ControllerAnswer | JournalFault) -> None:
        on_answer, self._current = self._current, None
        assert on_answer is not None, "only one command is decided at a time"
        try:
            on_answer(answer)
        finally:
            self._decide_next()
