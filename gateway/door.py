"""Shell: where buyers wait to be let into the queue, however it is done behind.

Each has a deadline, and so many wait at most that a broker that stalls costs purchases and nothing else: of those who
wait on the loop (gateway/serving.py) as many as the server has connections to spare, of threads three quarters. Behind
the door there is a desk on a thread of this process, or a clerk in a process of his own (gateway/hatch.py).
"""

from __future__ import annotations

import threading
from typing import Protocol

from greenlet import getcurrent

from gateway.desk import Accepted, Call, Desk
from gateway.rounds import Rounds
from gateway.serving import THREADS
from gateway.submissions import ACK_S, State, producer, unavailable, unknown

ROOM_ON_LOOP = 768
ROOM_ON_THREADS = THREADS * 3 // 4


class Behind(Protocol):
    def ask(self, call: Call, patience_s: float) -> Accepted:
        """`Problem`: why not. `TimeoutError`: nobody has answered."""

    def late(self) -> None:
        """Somebody has waited in vain."""

    def state(self) -> State:
        """`TimeoutError`: it does not say."""

    def check(self) -> None:
        """Raises unless it has reached the broker."""


class Here:
    """The desk on a thread of this process."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._rounds: Rounds[Call, Accepted] = Rounds("turnstile", desk.turnstile.round)

    def ask(self, call: Call, patience_s: float) -> Accepted:
        return self._rounds.ask(call, patience_s)

    def late(self) -> None:
        self._desk.turnstile.late()

    def state(self) -> State:
        return self._desk.turnstile.state()

    def check(self) -> None:
        producer()


class Door:
    def __init__(self, behind: Behind) -> None:
        self.behind = behind
        self._on_loop = self._on_threads = 0
        self._counting = threading.Lock()

    @property
    def waiting(self) -> int:
        """Who have not got their answer."""
        return self._on_loop + self._on_threads

    def pass_through(self, call: Call) -> Accepted:
        """In the queue, once the broker has it; the `Problem` says why not."""
        is_on_loop = getcurrent().parent is not None
        with self._counting:
            if (self._on_loop == ROOM_ON_LOOP) if is_on_loop else (self._on_threads == ROOM_ON_THREADS):
                raise unavailable()
            self._count(is_on_loop, 1)
        try:
            return self.behind.ask(call, ACK_S)
        except TimeoutError as late:
            self.behind.late()
            raise unknown() from late
        finally:
            with self._counting:
                self._count(is_on_loop, -1)

    def _count(self, is_on_loop: bool, more: int) -> None:
        if is_on_loop:
            self._on_loop += more
        else:
            self._on_threads += more


door = Door(Here(Desk()))
