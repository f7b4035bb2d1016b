"""Shell: work for the end of a turn of the event loop, so that one write carries the answers of a whole turn."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from mqcore.host import Clock

log = logging.getLogger(__name__)


class TurnUser(Protocol):
    """A connection, as the end of a turn sees it."""

    @property
    def client_host(self) -> str: ...

    def abort(self) -> None: ...


class LoopTurns:
    """`then` runs after the steps of each turn."""

    def __init__(self, clock: Clock, then: Callable[[], None]) -> None:
        self._clock = clock
        self._then = then
        self._steps: list[tuple[TurnUser, Callable[[], None]]] = []

    def run_at_end(self, connection: TurnUser, step: Callable[[], None]) -> None:
        """Run `step` after everything that the current turn of the event loop has read."""
        self._steps.append((connection, step))
        if len(self._steps) == 1:
            self._clock.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        steps, self._steps = self._steps, []
        for connection, step in steps:
            try:
                step()
            except Exception:  # a bug in one connection must not stop the others
                log.exception("a connection failed", extra={"client": connection.client_host})
                connection.abort()
        self._then()
