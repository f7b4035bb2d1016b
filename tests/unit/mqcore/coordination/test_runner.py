"""The one loop: decide → append → apply → wait for the commit → answer. A counter stands for all machines."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import uvloop

from mqcore.clock import Instant, SystemClock
from mqcore.coordination.decision import Decision, Tick, Ticket
from mqcore.coordination.journal import CommandFailed, JournalFault
from mqcore.coordination.runner import Runner
from mqcore.identity import Millis
from tests.unit.mqcore.coordination.virtual import MemoryJournal, VirtualClock


@dataclass(frozen=True)
class Add:
    amount: int


@dataclass(frozen=True)
class WaitFor:
    """Answered when the count has got there."""

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
        return len(self.runner._waiting)

    def submit(self, command: Add | WaitFor) -> list[int | str | JournalFault]:
        heard: list[int | str | JournalFault] = []
        self.runner.submit(command, heard.append)
        return heard

    def wait_for(self, count: int, ms: int = 1_000) -> list[int | str | JournalFault]:
        return self.submit(WaitFor(count, Millis(self.clock.monotonic_ms + ms)))


def test_a_command_is_decided_kept_applied_and_answered() -> None:
    bench = Bench()
    assert bench.submit(Add(2)) == [2]
    assert bench.journal.kept == [Added(2)]
    assert bench.machine.count == 2
    assert bench.changes == 1


def test_nothing_is_answered_before_it_is_committed() -> None:
    bench = Bench()
    bench.journal.hold()
    heard = bench.submit(Add(2))
    assert (heard, bench.machine.count) == ([], 2)
    bench.journal.release()
    assert heard == [2]


def test_one_command_answers_others_that_wait() -> None:
    bench = Bench()
    waiting = bench.wait_for(3)
    assert waiting == []
    assert bench.submit(Add(3)) == [3]
    assert waiting == [3]


def test_what_cannot_be_kept_changes_nothing_and_only_its_sender_hears_of_it() -> None:
    bench = Bench()
    waiting = bench.wait_for(3)
    bench.journal.broken = True
    assert isinstance(bench.submit(Add(3))[0], JournalFault)
    assert (bench.machine.count, waiting) == (0, [])
    bench.journal.broken = False
    bench.submit(Add(3))
    assert waiting == [3]


def test_time_is_a_command_when_the_machine_said_it_would_be() -> None:
    bench = Bench()
    first, second = bench.wait_for(9, 500), bench.wait_for(9, 1_000)
    bench.clock.advance(499)
    assert first == []
    bench.clock.advance(1)
    assert (first, second) == (["late"], [])
    bench.clock.advance(500)
    assert second == ["late"]
    assert bench.clock.next_timer_ms is None


def test_an_earlier_deadline_replaces_a_later_one() -> None:
    bench = Bench()
    bench.wait_for(9, 1_000)
    early = bench.wait_for(9, 100)
    bench.clock.advance(100)
    assert early == ["late"]


def test_time_that_cannot_be_kept_is_tried_again_a_second_later() -> None:
    bench = Bench()
    waiting = bench.wait_for(9, 100)
    bench.journal.broken = True
    bench.clock.advance(100)
    assert waiting == []
    assert bench.clock.next_timer_ms == 1_000
    bench.journal.broken = False
    bench.clock.advance(1_000)
    assert waiting == ["late"]


def test_a_machine_that_is_dropped_tells_all_who_wait_and_all_who_come() -> None:
    bench = Bench()
    waiting = bench.wait_for(9)
    fault = JournalFault("led by another broker")
    bench.runner.stop(fault)
    assert waiting == [fault]
    assert bench.submit(Add(1)) == [fault]
    assert bench.clock.next_timer_ms is None
    assert bench.machine.count == 0


def test_a_commit_that_comes_after_the_machine_was_dropped_answers_nobody_twice() -> None:
    bench = Bench()
    bench.journal.hold()
    heard = bench.submit(Add(1))
    fault = JournalFault("led by another broker")
    bench.runner.stop(fault)
    bench.journal.release()
    assert heard == [fault]


def test_an_answer_may_lead_to_the_next_command_at_once() -> None:
    bench = Bench()
    heard: list[object] = []
    bench.runner.submit(Add(1), lambda _: bench.runner.submit(Add(10), heard.append))
    assert heard == [11]


def test_the_journal_rebuilds_the_machine() -> None:
    bench = Bench()
    bench.wait_for(9)
    for amount in (1, 2, 3):
        bench.submit(Add(amount))
    other = Counter()
    for fact in bench.journal.kept:
        other.apply(fact)
    assert (other.count, other.waiting) == (bench.machine.count, bench.machine.waiting)


@pytest.mark.parametrize("where", ["decide", "append"])
def test_an_exception_of_a_rule_or_a_codec_answers_its_command_and_changes_nothing(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    other = bench.wait_for(3)

    def fails(*arguments: object) -> None:
        raise ValueError("too large for an int64")

    with monkeypatch.context() as patch:
        patch.setattr(bench.machine if where == "decide" else bench.journal, where, fails)
        heard = bench.submit(Add(3))
    assert isinstance(heard[0], CommandFailed)
    assert "Add failed: ValueError: too large for an int64" in str(heard[0])
    assert (len(heard), bench.machine.count, other, bench.waiting_callers) == (1, 0, [], 1)
    assert bench.submit(Add(3)) == [3]
    assert (other, bench.waiting_callers) == ([3], 0)


def test_time_that_meets_an_exception_is_tried_again_a_second_later(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    waiting = bench.wait_for(9, 100)
    with monkeypatch.context() as patch:
        patch.setattr(bench.machine, "decide", lambda *arguments: 1 // 0)
        bench.clock.advance(100)
    assert (waiting, bench.clock.next_timer_ms) == ([], 1_000)
    bench.clock.advance(1_000)
    assert waiting == ["late"]


def test_a_machine_that_cannot_apply_what_was_kept_is_stopped_and_all_waiting_callers_hear_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    waiting = bench.wait_for(9)
    monkeypatch.setattr(bench.machine, "apply", lambda fact: 1 // 0)
    for heard in (bench.submit(Add(1)), waiting, bench.submit(Add(1))):
        assert len(heard) == 1
        assert isinstance(heard[0], CommandFailed)
    assert bench.clock.next_timer_ms is None


class Kept:
    """A machine whose one deadline is postponed by each `Add`; `late` says that it passed."""

    def __init__(self, clock: SystemClock, ms: int) -> None:
        self.clock, self.ms, self.late = clock, ms, False
        self.until: int | None = clock.now().monotonic_ms + ms

    def decide(self, ticket: Ticket, command: Add | Tick, now: Instant) -> Decision[Added, str]:
        if isinstance(command, Add):
            return Decision((Added(now.monotonic_ms + self.ms),), ((ticket, "postponed"),))
        overdue = self.until is not None and self.until <= now.monotonic_ms
        return Decision((Added(0),)) if overdue else Decision()

    def apply(self, fact: Added) -> None:
        self.until = fact.amount or None
        self.late = self.late or not fact.amount

    def deadline(self) -> Millis | None:
        return None if self.until is None else Millis(self.until)

    def check(self) -> None:
        pass


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("arrives", ["on a connection", "on a new connection", "never"])
def test_after_a_stall_what_has_arrived_is_served_before_time_decides(
    make_loop: Callable[[], asyncio.AbstractEventLoop], arrives: str
) -> None:
    loop = make_loop()
    listening = socket.create_server(("127.0.0.1", 0))
    theirs = socket.socket()
    busy, stalls = socket.socketpair()
    clock = SystemClock(loop)
    machine = Kept(clock, 40)
    runner: Runner[Add, Added, str] = Runner(machine, MemoryJournal[Added](), clock)
    heard: list[object] = []

    accepted: list[socket.socket] = []

    def accept() -> None:
        accepted.append(listening.accept()[0])
        loop.add_reader(accepted[0], readable)

    def readable() -> None:
        accepted[0].recv(1)
        runner.submit(Add(0), heard.append)

    def stall() -> None:
        """One long request: the deadline passes, and another request arrives, while the loop serves nothing else."""
        busy.recv(1)
        if arrives == "on a new connection":
            theirs.connect(listening.getsockname())
        if arrives != "never":
            theirs.send(b"x")
        time.sleep(0.06)

    async def scene() -> None:
        if arrives == "on a connection":
            theirs.connect(listening.getsockname())
            accept()
        else:
            loop.add_reader(listening, accept)
        runner.submit(Add(0), heard.append)
        first_deadline = machine.until
        loop.add_reader(busy, stall)
        stalls.send(b"x")
        while machine.until == first_deadline:
            await asyncio.sleep(0)
        for end in (busy, listening, *accepted):
            loop.remove_reader(end)

    try:
        loop.run_until_complete(asyncio.wait_for(scene(), 10))
    finally:
        runner.stop(JournalFault("over"))
        loop.close()
        for end in (listening, theirs, busy, stalls, *accepted):
            end.close()
    assert machine.late is (arrives == "never")
    assert heard == ["postponed"] * (1 if arrives == "never" else 2)


def test_a_waiter_that_raises_does_not_keep_the_answer_from_the_others() -> None:
    bench = Bench()
    bench.journal.hold()

    def fails(answer: object) -> None:
        raise RuntimeError("a defect in an API module")

    bench.runner.submit(WaitFor(3, Millis(bench.clock.monotonic_ms + 500)), fails)
    waiting = bench.wait_for(3)
    late = bench.wait_for(9, 700)
    added = bench.submit(Add(3))
    with pytest.raises(RuntimeError):
        bench.journal.release()
    assert (waiting, added) == ([3], [3])
    bench.clock.advance(700)
    assert late == ["late"]
