"""Shell: where the threads of this process wait to be let into the queue, however it is done behind.

At most three quarters of them wait here, each with a deadline: a broker that stalls costs purchases and nothing else.
Behind the door there is a desk on a thread of this process, or a clerk in a process of his own (gateway/hatch.py).
"""

from __future__ import annotations

import threading
from typing import Protocol

from gateway.desk import Accepted, Call, Desk
from gateway.rounds import Rounds
from gateway.submissions import ACK_S, State, producer, unavailable, unknown

THREADS = 128
ROOM = THREADS * 3 // 4


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
        self.waiting = 0
        """Threads that have not got their answer."""
        self._counting = threading.Lock()

    def pass_through(self, call: Call) -> Accepted:
        """In the queue, once the broker has it; the `Problem` says why not."""
        with self._counting:
            if self.waiting == ROOM:
                raise unavailable()
            self.waiting += 1
        try:
            return self.behind.ask(call, ACK_S)
        except TimeoutError as late:
            self.behind.late()
            raise unknown() from late
        finally:
            with self._counting:
                self.waiting -= 1


door = Door(Here(Desk()))
