"""Shell: the clerk: a gateway's desk in a process of its own, so that the threads that serve HTTP have theirs for that.

He reads all that has come through the hatch, works on it in one round, and goes on; answers go back as they come up,
from the round or from the producer's thread. He ends when the gateway does, however it does, and finishes what he has
begun.
"""

from __future__ import annotations

import os

import django

from seckill.config.database import WEB_STATEMENT_MS

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.config.settings")
os.environ.setdefault("SECKILL_STATEMENT_TIMEOUT_MS", str(WEB_STATEMENT_MS))
django.setup()

import logging  # noqa: E402  # Django had to be set up
import queue  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from contextlib import suppress  # noqa: E402

from kafka.errors import KafkaError  # noqa: E402

from gateway import sales, submissions  # noqa: E402
from gateway.desk import Accepted, Call, Desk  # noqa: E402
from gateway.hatch import LATE, STATE, Message, packed, received  # noqa: E402
from seckill.config.garbage import tune_collector  # noqa: E402
from seckill.monitoring import logs  # noqa: E402
from seckill.web.problems import Problem  # noqa: E402

log = logging.getLogger(__name__)

AGAIN_S = 1.0
FLUSH_S = 3.0


class Slip:
    """A call that somebody waits for on the other side."""

    __slots__ = ("_answers", "_number", "ask")

    def __init__(self, number: int, call: Call, answers: queue.SimpleQueue[bytes]) -> None:
        self.ask = call
        self._number: int | None = number
        self._answers = answers

    def settle(self, answer: Accepted | BaseException) -> None:
        number, self._number = self._number, None
        if number is None:
            return
        accepted = problem = None
        match answer:
            case Problem():
                problem = (answer.status, answer.kind, str(answer), answer.retry_after_s, answer.extra)
            case BaseException():
                log.error("a call could not be worked on", exc_info=answer)
            case _:
                accepted = tuple(answer)
        self._answers.put(packed((number, accepted, problem)))


class Clerk:
    def __init__(self, theirs: socket.socket) -> None:
        self._socket = theirs
        self._desk = Desk()
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._has_reached_broker = False

    def work(self) -> None:
        for work in (self._write, self._reach_broker, sales.keep_fresh):
            threading.Thread(target=work, name=work.__name__.strip("_"), daemon=True).start()
        for messages in received(self._socket):
            slips = [Slip(number, Call(*call), self._answers) for number, *call in messages if call]
            if len(slips) < len(messages):
                self._answer_others(messages)
            if slips:
                sales.is_fresh()
                self._round(slips)
        if self._has_reached_broker:
            with suppress(KafkaError):  # what is not acknowledged by now the buyers ask again
                submissions.producer().flush(FLUSH_S)

    def _round(self, slips: Sequence[Slip]) -> None:
        try:
            self._desk.turnstile.round(slips)
        except Exception as fault:
            for slip in slips:
                slip.settle(fault)

    def _answer_others(self, messages: Sequence[Message]) -> None:
        for number, *call in messages:
            if not call and number == LATE:
                self._desk.turnstile.late()
            elif not call and number == STATE:
                state = (*self._desk.turnstile.state(), self._has_reached_broker)
                self._answers.put(packed((STATE, state, None)))

    def _write(self) -> None:
        """All that is there, each time: whoever has a batch acknowledged keeps the interpreter until he is through."""
        while True:
            answers = [self._answers.get()]
            try:
                while True:
                    answers.append(self._answers.get_nowait())
            except queue.Empty:
                pass
            try:
                self._socket.sendall(b"".join(answers))
            except OSError:
                return  # nobody is there any more to hear it

    def _reach_broker(self) -> None:
        """Before the first buyer comes."""
        while not self._has_reached_broker:
            try:
                submissions.producer()
                self._has_reached_broker = True
            except Exception as fault:
                log.warning("the broker is not there yet", extra={"reason": f"{type(fault).__name__}: {fault}"})
                time.sleep(AGAIN_S)


def main() -> int:
    """What ends the gateway reaches the whole group of processes; he ends by the hatch alone."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    logs.configure("warning")
    theirs = socket.socket(fileno=int(sys.argv[1]))
    tune_collector()
    Clerk(theirs).work()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
