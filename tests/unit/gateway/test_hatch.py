"""The hatch and the clerk behind it: every call gets its own answer, whatever the pieces it comes in."""

from __future__ import annotations

import asyncio
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from gateway.clerk import Slip
from gateway.desk import Accepted, Call
from gateway.hatch import AT_ONCE, LATE, STATE, Hatch, Message, packed, received
from gateway.submissions import State
from greenlet import greenlet

from seckill.stack.child_processes import free_port
from seckill.web import tokens
from seckill.web.problems import Problem

ROOT = Path(__file__).parents[3]
CALL = Call(1, "", "Bearer ä", "key", "", "127.0.0.1", "", None, b'{"quantity":1}')


class Clerk:
    """The other side, as the test wants it."""

    def __init__(self, theirs: socket.socket) -> None:
        self.socket = theirs
        self._received = received(theirs)
        self._rest: list[Message] = []

    def next(self) -> Message:
        while not self._rest:
            self._rest = next(self._received)
        return self._rest.pop(0)

    def say(self, *messages: Message) -> None:
        self.socket.sendall(b"".join(map(packed, messages)))


@contextmanager
def served(hatch: Hatch) -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that serves it, on a thread."""
    loop = asyncio.new_event_loop()
    hatch.open(loop)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        hatch.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def world() -> Iterator[tuple[Hatch, Clerk, asyncio.AbstractEventLoop]]:
    ours, theirs = socket.socketpair()
    hatch = Hatch(ours)
    with ours, theirs, served(hatch) as loop:
        yield hatch, Clerk(theirs), loop


@pytest.fixture
def sides(world: tuple[Hatch, Clerk, asyncio.AbstractEventLoop]) -> tuple[Hatch, Clerk]:
    hatch, clerk, _ = world
    return hatch, clerk


def on_a_greenlet(loop: asyncio.AbstractEventLoop, ask: Callable[[], Accepted]) -> Future[Accepted]:
    """Of the loop, as the gateway's requests are."""
    told: Future[Accepted] = Future()

    def work() -> None:
        try:
            told.set_result(ask())
        except Exception as fault:
            told.set_exception(fault)

    loop.call_soon_threadsafe(lambda: greenlet(work).switch())
    return told


def accepted(name: str) -> tuple[str, str, int, bytes]:
    return name, "", 500, b"{}"


def test_messages_come_whole_however_they_are_cut() -> None:
    ours, theirs = socket.socketpair()
    sent = [(number, "x" * number) for number in range(300)]
    content = b"".join(map(packed, sent))

    def trickle() -> None:
        for at in range(0, len(content), 7):
            ours.sendall(content[at : at + 7])
        ours.close()

    writer = threading.Thread(target=trickle)
    writer.start()
    found = [message for messages in received(theirs) for message in messages]
    writer.join()
    theirs.close()
    assert found == sent


def test_everybody_gets_his_own_answer_in_whatever_order_they_come(sides: tuple[Hatch, Clerk]) -> None:
    hatch, clerk = sides

    def work() -> None:
        calls = [clerk.next() for _ in range(20)]
        clerk.say(*[(number, accepted(Call(*call).key), None) for number, *call in reversed(calls)])

    worker = threading.Thread(target=work)
    worker.start()
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda n: hatch.ask(CALL._replace(key=f"k-{n}"), 10), range(20)))
    worker.join()
    assert [each.request_id for each in answers] == [f"k-{n}" for n in range(20)]


def test_hundreds_wait_on_the_loop_without_a_thread(world: tuple[Hatch, Clerk, asyncio.AbstractEventLoop]) -> None:
    hatch, clerk, loop = world
    threads = threading.active_count()
    told = [on_a_greenlet(loop, lambda n=n: hatch.ask(CALL._replace(key=f"k-{n}"), 10)) for n in range(300)]  # type: ignore[misc]
    calls = [clerk.next() for _ in told]
    assert threading.active_count() == threads
    clerk.say(*[(number, accepted(Call(*call).key), None) for number, *call in reversed(calls)])
    assert [each.result(10).request_id for each in told] == [f"k-{n}" for n in range(300)]


def test_a_few_calls_go_through_before_the_loop_has_worked_on_all(
    world: tuple[Hatch, Clerk, asyncio.AbstractEventLoop],
) -> None:
    hatch, clerk, loop = world
    goes_on = threading.Event()

    def work() -> None:
        for number in range(AT_ONCE):
            greenlet(hatch.ask).switch(CALL._replace(key=f"k-{number}"), 10)
        goes_on.wait(10)  # the loop is busy with something else

    loop.call_soon_threadsafe(work)
    assert [clerk.next()[4] for _ in range(AT_ONCE)] == [f"k-{number}" for number in range(AT_ONCE)]
    goes_on.set()


def test_a_clerk_who_takes_nothing_does_not_hold_up_the_loop(
    world: tuple[Hatch, Clerk, asyncio.AbstractEventLoop],
) -> None:
    """More than a socket holds; once he takes it, all of it comes."""
    hatch, clerk, loop = world
    call = CALL._replace(body=b"x" * 4096)
    told = [on_a_greenlet(loop, lambda n=n: hatch.ask(call._replace(key=f"k-{n}"), 20)) for n in range(600)]  # type: ignore[misc]
    turn = threading.Event()
    loop.call_soon_threadsafe(turn.set)
    assert turn.wait(10)
    for _ in told:
        number, *came = clerk.next()
        clerk.say((number, accepted(Call(*came).key), None))
    assert [each.result(10).request_id for each in told] == [f"k-{n}" for n in range(600)]


def test_who_waits_in_vain_on_the_loop_is_told_so(world: tuple[Hatch, Clerk, asyncio.AbstractEventLoop]) -> None:
    hatch, clerk, loop = world
    told = on_a_greenlet(loop, lambda: hatch.ask(CALL, 0.01))
    with pytest.raises(TimeoutError):
        told.result(10)
    late, *_ = clerk.next()
    clerk.say((late, accepted("late"), None))
    again = on_a_greenlet(loop, lambda: hatch.ask(CALL, 10))
    clerk.say((clerk.next()[0], accepted("now"), None))
    assert again.result(10).request_id == "now"


def test_a_problem_is_raised_on_a_greenlet_as_well(world: tuple[Hatch, Clerk, asyncio.AbstractEventLoop]) -> None:
    hatch, clerk, loop = world
    told = on_a_greenlet(loop, lambda: hatch.ask(CALL, 10))
    clerk.say((clerk.next()[0], None, (409, "sold-out", "Gone.", None, {})))
    with pytest.raises(Problem, match="Gone"):
        told.result(10)


def test_a_problem_is_raised_as_it_was_and_a_failure_as_one(sides: tuple[Hatch, Clerk]) -> None:
    hatch, clerk = sides
    threading.Thread(target=lambda: clerk.say((clerk.next()[0], None, (409, "sold-out", "Gone.", 2, {"a": 1})))).start()
    with pytest.raises(Problem, match="Gone") as told:
        hatch.ask(CALL, 10)
    problem = told.value
    assert (problem.status, problem.kind, problem.retry_after_s, problem.extra) == (409, "sold-out", 2, {"a": 1})
    threading.Thread(target=lambda: clerk.say((clerk.next()[0], None, None))).start()
    with pytest.raises(RuntimeError):
        hatch.ask(CALL, 10)


def test_an_answer_that_comes_too_late_is_not_taken_for_another_ones(sides: tuple[Hatch, Clerk]) -> None:
    hatch, clerk = sides
    with pytest.raises(TimeoutError):
        hatch.ask(CALL, 0.01)
    hatch.late()
    late, *_ = clerk.next()
    assert clerk.next() == (LATE,)
    clerk.say((late, accepted("late"), None))
    threading.Thread(target=lambda: clerk.say((clerk.next()[0], accepted("now"), None))).start()
    assert hatch.ask(CALL, 10).request_id == "now"


def test_the_clerk_is_asked_how_it_stands(sides: tuple[Hatch, Clerk], monkeypatch: pytest.MonkeyPatch) -> None:
    hatch, clerk = sides
    for is_ready in (True, False):
        threading.Thread(target=lambda ready=is_ready: clerk.say((clerk.next()[0], (7, 1, 2, ready), None))).start()
        if is_ready:
            hatch.check()
        else:
            with pytest.raises(ConnectionError):
                hatch.check()
    threading.Thread(target=lambda: clerk.say((clerk.next()[0], (7, 1, 2, True), None))).start()
    assert hatch.state() == State(7, 1, 2)
    monkeypatch.setattr("gateway.hatch.STATE_S", 0.01)
    with pytest.raises(TimeoutError):
        hatch.state()
    assert clerk.next() == (STATE,)


def test_a_slip_is_settled_once_and_a_failure_tells_nothing_of_itself() -> None:
    answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    slip = Slip(5, CALL, answers)
    slip.settle(ValueError("secret"))
    slip.settle(Accepted(*accepted("late")))
    assert answers.get_nowait() == packed((5, None, None))
    assert answers.empty()


def test_a_gateway_does_not_outlive_its_clerk() -> None:
    lines = (
        "import asyncio, socket, gateway.hatch as h; a, b = socket.socketpair(); hatch = h.Hatch(a); b.close(); "
        "loop = asyncio.new_event_loop(); hatch.open(loop); loop.call_later(60, loop.stop); loop.run_forever()"
    )
    ended = subprocess.run([sys.executable, "-c", SET_UP + lines], cwd=ROOT, timeout=30, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "the clerk is gone" in ended.stderr


def test_a_clerk_answers_ends_with_its_gateway_and_does_not_heed_what_ends_the_whole_group() -> None:
    """A real one; Redis and broker are away, and he says so."""
    ours, his = socket.socketpair()
    environment = {
        **os.environ,
        "SECKILL_ADMISSION_REDIS_URL": f"redis://127.0.0.1:{free_port()}/0",
        "SECKILL_KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{free_port()}",
    }
    with his:
        command = [sys.executable, "-m", "gateway.clerk", str(his.fileno())]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, pass_fds=[his.fileno()])
    hatch = Hatch(ours)
    with ours, served(hatch):
        with pytest.raises(Problem) as told:
            hatch.ask(CALL, 30)
        assert told.value.kind == "not-signed-in"
        with pytest.raises(Problem) as told:
            hatch.ask(CALL._replace(authorization=f"Bearer {tokens.issue_token('ann')}"), 30)
        assert told.value.kind == "sales-unavailable"
        with pytest.raises(ConnectionError):
            hatch.check()
        process.terminate()
        assert hatch.state() == State(0, 0, 0)
    assert process.wait(30) == 0


SET_UP = (
    "import os; os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'seckill.config.settings'); "
    "import django; django.setup(); "
)
