"""Shell: runs one machine: decide → append → apply → wait for the commit → answer.

An answer, also to a read, is given only when all facts it rests on are committed. A machine that loses its
journal is stopped and dropped: whoever waits gets the fault, and there is no rollback.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic

from mqcore.clock import Clock, Timer
from mqcore.coordination.decision import Answer, Command, Decision, Fact, Machine, Tick, Ticket
from mqcore.coordination.journal import CommandFailed, Journal, JournalFault

log = logging.getLogger(__name__)

Waiter = Callable[[Answer | JournalFault], None]

_TIME = Ticket(0)

TURNS_BEFORE_TICK = 6
"""Turns of the event loop: one to read what connections have sent, the others to accept and read new connections."""


class Runner(Generic[Command, Fact, Answer]):
    def __init__(
        self,
        machine: Machine[Command, Fact, Answer],
        journal: Journal[Fact],
        clock: Clock,
        changed: Callable[[], None] | None = None,
    ) -> None:
        """`changed` is called after facts were applied, before anybody hears of them; it submits nothing."""
        self.machine = machine
        self._journal = journal
        self._clock = clock
        self._changed = changed
        self._waiting: dict[Ticket, Waiter[Answer]] = {}
        self._last_ticket = _TIME
        self._timer: Timer | None = None
        self._timer_at: int | None = None
        self._stopped: JournalFault | None = None

    def submit(self, command: Command, waiter: Waiter[Answer]) -> None:
        """Decide one command; `waiter` is called exactly once, now or later."""
        if self._stopped is not None:
            waiter(self._stopped)
            return
        self._last_ticket = ticket = Ticket(self._last_ticket + 1)
        self._waiting[ticket] = waiter
        self._step(ticket, command)

    def stop(self, fault: JournalFault) -> None:
        """Drop the machine: everybody who waits, and whoever comes later, gets the fault."""
        self._stopped = fault
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, {}
        _call_all([partial(waiter, fault) for waiter in waiting.values()])

    def _step(self, ticket: Ticket, command: Command | Tick) -> None:
        try:
            decision = self.machine.decide(ticket, command, self._clock.now())
            end = self._journal.append(decision.facts)
        except JournalFault as fault:
            self._fail(ticket, fault)
            return
        except Exception as error:  # a rule or a codec is wrong about this command; nothing was kept or applied
            self._fail(ticket, _failed("a command failed", command, error))
            return
        try:
            for fact in decision.facts:
                self.machine.apply(fact)
        except Exception as error:  # the journal says more than the machine knows: what it answers now may be wrong
            self.stop(_failed("a decision could not be applied; the machine is stopped", command, error))
            return
        if self._changed is not None:
            self._changed()
        try:
            if decision.answers:
                self._journal.when_committed(end, lambda fault: self._answer(decision, fault))
        finally:
            self._set_timer()

    def _answer(self, decision: Decision[Fact, Answer], fault: JournalFault | None) -> None:
        due = [(self._waiting.pop(ticket, None), answer) for ticket, answer in decision.answers]
        _call_all([partial(waiter, answer if fault is None else fault) for waiter, answer in due if waiter is not None])

    def _fail(self, ticket: Ticket, fault: JournalFault) -> None:
        waiter = self._waiting.pop(ticket, None)
        if waiter is not None:
            waiter(fault)
        self._set_timer(not_before_ms=1000 if ticket == _TIME else 0)

    def _set_timer(self, not_before_ms: int = 0) -> None:
        at = self.machine.deadline()
        if at == self._timer_at and self._timer is not None and not not_before_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = at
        if at is not None and self._stopped is None:
            delay_ms = max(at - self._clock.now().monotonic_ms, not_before_ms)
            self._timer = self._clock.call_later(delay_ms, self._tick)

    def _tick(self, turns: int = TURNS_BEFORE_TICK) -> None:
        """Requests that have already arrived are served before time decides.

        After a stall the event loop runs timers before it reads sockets, so a member whose heartbeat waits in a socket
        would be expelled.
        """
        then = partial(self._tick, turns - 1) if turns else self._tick_now
        self._timer = self._clock.call_soon(then)

    def _tick_now(self) -> None:
        self._timer = None
        self._step(_TIME, Tick())


def _call_all(calls: Sequence[Callable[[], None]]) -> None:
    """Every waiter is called, whatever another one raises; the first exception is raised at the end."""
    failed: Exception | None = None
    for call in calls:
        try:
            call()
        except Exception as error:
            failed = failed or error
    if failed is not None:
        raise failed


def _failed(what: str, command: object, error: Exception) -> CommandFailed:
    """Log the exception that is being handled, and make the fault that the waiting callers get."""
    name = type(command).__name__
    log.exception(what, extra={"command": name})
    return CommandFailed(f"{name} failed: {type(error).__name__}: {error}")
