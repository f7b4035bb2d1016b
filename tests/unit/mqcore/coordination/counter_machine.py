"""A counter as the machine under test, and a runner around it with a journal in memory and a virtual clock."""

from __future__ import annotations

from dataclasses import dataclass

from mqcore.coordination.decision import Decision, Tick, Ticket
from mqcore.coordination.journal import JournalFault
from mqcore.coordination.runner import Runner
from mqcore.host import Instant
from mqcore.identity import Millis
from tests.unit.mqcore.coordination.virtual import MemoryJournal, VirtualClock


@dataclass(frozen=True)
class Add:
    amount: int


@dataclass(frozen=True)
class WaitFor:
    """Answered when the counter has reached `count`."""

    count: int
    until: Millis


@dataclass(frozen=True)
class Added:
    amount: int


@dataclass(frozen=True)
class Waited:
    ticket: Ticket
    count: int
    until: Millis


@dataclass(frozen=True)
class Released:
    ticket: Ticket


Fact = Added | Waited | Released


class Counter:
    def __init__(self) -> None:
        self.count = 0
        self.waiting: dict[Ticket, Waited] = {}

    def decide(self, ticket: Ticket, command: Add | WaitFor | Tick, now: Instant) -> Decision[Fact, int | str]:
        match command:
            case Add(amount):
                total = self.count + amount
                ready = [waited for waited in self.waiting.values() if waited.count <= total]
                return Decision(
                    (Added(amount), *(Released(waited.ticket) for waited in ready)),
                    ((ticket, total), *((waited.ticket, total) for waited in ready)),
                )
            case WaitFor(count, until):
                return Decision((Waited(ticket, count, until),))
            case Tick():
                late = [waited for waited in self.waiting.values() if waited.until <= now.monotonic_ms]
                return Decision(
                    tuple(Released(waited.ticket) for waited in late), tuple((waited.ticket, "late") for waited in late)
                )

    def apply(self, fact: Fact) -> None:
        match fact:
            case Added(amount):
                self.count += amount
            case Waited():
                self.waiting[fact.ticket] = fact
            case Released(ticket):
                del self.waiting[ticket]

    def deadline(self) -> Millis | None:
        return min((waited.until for waited in self.waiting.values()), default=None)

    def check(self) -> None:
        assert self.count >= 0


class Bench:
    def __init__(self) -> None:
        self.machine = Counter()
        self.journal = MemoryJournal[Fact]()
        self.clock = VirtualClock()
        self.changes = 0
        self.runner: Runner[Add | WaitFor, Fact, int | str] = Runner(
            self.machine, self.journal, self.clock, self._changed
        )

    def _changed(self) -> None:
        self.changes += 1

    @property
    def waiting_callers(self) -> int:
        return len(self.runner._callers)

    def submit(self, command: Add | WaitFor) -> list[int | str | JournalFault]:
        heard: list[int | str | JournalFault] = []
        self.runner.submit(command, heard.append)
        return heard

    def wait_for(self, count: int, ms: int = 1_000) -> list[int | str | JournalFault]:
        return self.submit(WaitFor(count, Millis(self.clock.monotonic_ms + ms)))
