"""The hatch and the clerk behind it: every call gets its own answer, whatever the pieces it comes in."""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gateway.clerk import Slip
from gateway.desk import Accepted, Call
from gateway.hatch import LATE, STATE, Hatch, Message, Outgoing, packed, received
from gateway.submissions import State
from seckill import tokens
from seckill.problems import Problem
from seckill.stack.broker import free_port

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


@pytest.fixture
def sides() -> Iterator[tuple[Hatch, Clerk]]:
    ours, theirs = socket.socketpair()
    hatch = Hatch(ours)
    yield hatch, Clerk(theirs)
    hatch.close()
    theirs.close()


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


def test_what_many_threads_send_at_once_arrives_all_of_it_and_whole() -> None:
    ours, theirs = socket.socketpair()
    outgoing = Outgoing(ours)
    found: set[Message] = set()

    def read() -> None:
        for messages in received(theirs):
            found.update(messages)

    reader = threading.Thread(target=read)
    reader.start()

    def say(name: int) -> None:
        for number in range(500):
            outgoing.send(packed((name, number)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(say, range(8)))
    ours.close()
    reader.join()
    theirs.close()
    assert found == {(name, number) for name in range(8) for number in range(500)}


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
    lines = "import socket, time, gateway.hatch as h; a, b = socket.socketpair(); h.Hatch(a); b.close(); time.sleep(60)"
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
    try:
        with pytest.raises(Problem) as told:
            hatch.ask(CALL, 30)
        assert told.value.kind == "not-signed-in"
        with pytest.raises(Problem) as told:
            hatch.ask(CALL._replace(authorization=f"Bearer {tokens.issue('ann')}"), 30)
        assert told.value.kind == "sales-unavailable"
        with pytest.raises(ConnectionError):
            hatch.check()
        process.terminate()
        assert hatch.state() == State(0, 0, 0)
    finally:
        hatch.close()
        assert process.wait(30) == 0


SET_UP = (
    "import os; os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'seckill.settings'); import django; django.setup(); "
)
