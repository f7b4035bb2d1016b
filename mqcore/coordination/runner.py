"""Shell: runs one machine: decide → append → apply → wait for the commit → answer.

An answer, even to a read, is given only when all facts it rests on are committed. If the journal fails, the callers get
the fault and nothing is rolled back: the machine may be ahead of its journal then, but no answer reveals it, because
every later answer waits for the same journal. The owner stops the runner when another broker takes over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, assert_never

from mqcore.coordination.decision import Answer, Command, Fact, Machine, Tick, Ticket
from mqcore.coordination.journal import CommandFailed, Journal, JournalFault, LeadershipLost
from mqcore.host import Clock, Timer
from mqcore.partitions.waiting_requests import CommitOutcome, Committed, NotLeader, StorageFault

log = logging.getLogger(__name__)

OnAnswer = Callable[[Answer | JournalFault], None]

_TICK_TICKET = Ticket(0)

TURNS_BEFORE_TICK = 6
"""Turns of the event loop: one to read what connections have sent, the others to accept and read new connections."""

FAILED_TICK_RETRY_MS = 1_000


class Runner(Generic[Command, Fact, Answer]):
    def __init__(
        self,
        machine: Machine[Command, Fact, Answer],
        journal: Journal[Fact],
        clock: Clock,
        after_step: Callable[[], None] | None = None,
    ) -> None:
        """`after_step` runs once after each command or tick, also a failed one, and before any caller is answered.
        It must not submit commands."""
        self.machine = machine
        self._journal = journal
        self._clock = clock
        self._after_step = after_step
        self._callers: dict[Ticket, OnAnswer[Answer]] = {}
        self._last_ticket = _TICK_TICKET
        self._timer: Timer | None = None
        self._timer_at: int | None = None
        self._stopped: JournalFault | None = None

    def submit(self, command: Command, on_answer: OnAnswer[Answer]) -> None:
        """Decide one command; `on_answer` is called exactly once, now or later."""
        if self._stopped is not None:
            on_answer(self._stopped)
            return
        self._last_ticket = ticket = Ticket(self._last_ticket + 1)
        self._callers[ticket] = on_answer
        self._run_step(ticket, command)

    def stop(self, fault: JournalFault) -> None:
        """Stop for good: all waiting and all later callers get the fault."""
        self._stopped = fault
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        callers, self._callers = self._callers, {}
        _call_all([partial(on_answer, fault) for on_answer in callers.values()])

    def _run_step(self, ticket: Ticket, command: Command | Tick) -> None:
        try:
            decision = self.machine.decide(ticket, command, self._clock.now())
            end = self._journal.append(decision.facts)
        except JournalFault as fault:
            self._fail(ticket, fault)
            return
        except Exception as error:  # a rule or a codec is wrong about this command; nothing was kept or applied
            self._fail(ticket, _command_failed("a command failed", command, error))
            return
        try:
            for fact in decision.facts:
                self.machine.apply(fact)
        except Exception as error:  # the machine misses facts of its journal, so its next answers could be wrong
            self.stop(_command_failed("a decision could not be applied; the machine is stopped", command, error))
            return
        if self._after_step is not None:
            self._after_step()
        try:
            if decision.answers:
                self._journal.when_committed(end, partial(self._on_commit, decision.answers))
        finally:
            self._set_timer()

    def _on_commit(self, answers: Sequence[tuple[Ticket, Answer]], outcome: CommitOutcome) -> None:
        fault = _fault_of(outcome)
        due = [(self._callers.pop(ticket, None), answer) for ticket, answer in answers]
        _call_all(
            [
                partial(on_answer, answer if fault is None else fault)
                for on_answer, answer in due
                if on_answer is not None
            ]
        )

    def _fail(self, ticket: Ticket, fault: JournalFault) -> None:
        on_answer = self._callers.pop(ticket, None)
        if self._after_step is not None:
            self._after_step()
        if on_answer is not None:
            on_answer(fault)
        self._set_timer(not_before_ms=FAILED_TICK_RETRY_MS if ticket == _TICK_TICKET else 0)

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
            self._timer = self._clock.call_later(delay_ms, self._on_timer)

    def _on_timer(self, turns: int = TURNS_BEFORE_TICK) -> None:
        """Serve the requests that have already arrived before the machine sees that a deadline has passed.

        After a stall the event loop runs timers before it reads sockets. Without the extra turns a member whose
        heartbeat is waiting in a socket would be removed.
        """
        then = partial(self._on_timer, turns - 1) if turns else self._tick
        self._timer = self._clock.call_soon(then)

    def _tick(self) -> None:
        self._timer = None
        self._run_step(_TICK_TICKET, Tick())


def _fault_of(outcome: CommitOutcome) -> JournalFault | None:
    match outcome:
        case Committed():
            return None
        case NotLeader(reason):
            return LeadershipLost(reason)
        case StorageFault(reason):
            return JournalFault(reason)
        case _:
            assert_never(outcome)


def _call_all(calls: Sequence[Callable[[], None]]) -> None:
    """Make every call, even if one raises; the first exception is raised at the end."""
    first_error: Exception | None = None
    for call in calls:
        try:
            call()
        except Exception as error:
            first_error = first_error or error
    if first_error is not None:
        raise first_error


def _command_failed(message: str, command: object, error: Exception) -> CommandFailed:
    """Log the exception that is being handled, and return the fault for the callers."""
    name = type(command).__name__
    log.exception(message, extra={"command": name})
    return CommandFailed(f"{name} failed: {type(error).__name__}: {error}")
