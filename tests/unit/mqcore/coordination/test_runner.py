"""The loop of every machine: decide, append, apply, wait for the commit, answer."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable

import pytest
import uvloop

from mqcore.coordination.decision import Decision, Tick, Ticket
from mqcore.coordination.journal import JournalFault
from mqcore.coordination.runner import Runner
from mqcore.host import Instant, SystemClock
from mqcore.identity import Millis
from tests.unit.mqcore.coordination.counter_machine import Add, Added, Bench, Counter
from tests.unit.mqcore.coordination.virtual import MemoryJournal


def test_a_command_is_decided_journaled_applied_and_answered() -> None:
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


def test_one_command_can_answer_waiting_ones() -> None:
    bench = Bench()
    waiting = bench.wait_for(3)
    assert waiting == []
    assert bench.submit(Add(3)) == [3]
    assert waiting == [3]


def test_a_tick_comes_at_the_deadline_of_the_machine() -> None:
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


def test_a_caller_may_submit_the_next_command_from_its_answer() -> None:
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


class Kept:
    """A machine with one deadline, which each `Add` postpones; `late` says whether it has passed."""

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
def test_after_a_stall_requests_that_have_arrived_are_served_before_the_tick(
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
        """A long request: the deadline passes and another request arrives while the event loop is blocked."""
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
