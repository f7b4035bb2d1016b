"""Shell: many waiting threads, one call: what threads ask at the same time is worked on in one round.

A call to Redis costs more than a whole view; a round of fifty costs hardly more than one. A round begins when the one
before has ended, so nobody waits for company, and the more are waiting the larger the rounds become.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

MOST = 256

Ask = TypeVar("Ask")
Answer = TypeVar("Answer")


class Entry(Generic[Ask, Answer]):
    """One thread's question and, once it is settled, its answer. Settled once; what comes later is not heard."""

    __slots__ = ("_answer", "_open", "_settled", "ask")

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self._answer: Answer | BaseException | None = None
        self._open = [None]  # who takes it out settles: two threads may try at once, and one can
        self._settled = threading.Lock()  # held until then: the cheapest thing a thread can wait for
        self._settled.acquire()

    def settle(self, answer: Answer | BaseException) -> None:
        try:
            self._open.pop()
        except IndexError:
            return
        self._answer = answer
        self._settled.release()

    def wait(self, patience_s: float) -> Answer:
        """The answer; an exception is raised here, `TimeoutError` if there is none in time."""
        if not self._settled.acquire(timeout=patience_s):
            raise TimeoutError
        answer = self._answer
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[return-value]  # settled, so it is there


class Rounds(Generic[Ask, Answer]):
    """`work` settles every entry of its round, at once or (from another thread) later; what it raises settles the rest.

    It runs on one thread of its own, begun by the first ask: after a fork there is nothing to mend.
    """

    def __init__(self, name: str, work: Callable[[Sequence[Entry[Ask, Answer]]], None]) -> None:
        self._name = name
        self._work = work
        self._waiting: queue.SimpleQueue[Entry[Ask, Answer]] = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._is_started = False

    @property
    def waiting(self) -> int:
        return self._waiting.qsize()

    def ask(self, ask: Ask, patience_s: float) -> Answer:
        if not self._is_started:
            self._start()
        entry: Entry[Ask, Answer] = Entry(ask)
        self._waiting.put(entry)
        return entry.wait(patience_s)

    def _start(self) -> None:
        with self._starting:
            if not self._is_started:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
                self._is_started = True

    def _run(self) -> None:
        while True:
            entries = [self._waiting.get()]
            try:
                while len(entries) < MOST:
                    entries.append(self._waiting.get_nowait())
            except queue.Empty:
                pass
            try:
                self._work(entries)
            except Exception as fault:
                for entry in entries:
                    entry.settle(fault)
