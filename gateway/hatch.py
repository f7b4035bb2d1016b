"""Shell: the hatch between a gateway's threads and its clerk: calls go through in one direction, answers in the other.

A message is four bytes of length and plain values as `marshal` writes them: both ends are the same interpreter, and
nobody else holds the socket. A call is (number, *Call), an answer (number, Accepted or None, problem or None).
"""

from __future__ import annotations

import atexit
import logging
import marshal
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

from gateway.desk import Accepted, Call
from gateway.rounds import Entry
from gateway.submissions import State
from seckill.problems import Problem

log = logging.getLogger(__name__)

STOP_S = 5.0
LATE, STATE = 0, 1
"""Numbers of a call that is none: somebody waited in vain; how does it stand?"""
MOST_BYTES = 256 * 1024
STATE_S = 1.0

Message = tuple[Any, ...]


def packed(message: Message) -> bytes:
    content = marshal.dumps(message)
    return len(content).to_bytes(4, "big") + content


def received(ours: socket.socket) -> Iterator[list[Message]]:
    """All that has come, each time something has; ends when the other side does."""
    rest = b""
    while chunk := ours.recv(MOST_BYTES):
        rest += chunk
        messages, at = [], 0
        while at + 4 <= len(rest):
            end = at + 4 + int.from_bytes(rest[at : at + 4], "big")
            if end > len(rest):
                break
            messages.append(marshal.loads(rest[at + 4 : end]))
            at = end
        rest = rest[at:]
        yield messages


class Outgoing:
    """Written by whichever thread comes first, for all who have something to say meanwhile."""

    def __init__(self, ours: socket.socket) -> None:
        self._socket = ours
        self._messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._writing = threading.Lock()

    def send(self, message: bytes) -> None:
        self._messages.put(message)
        while not self._messages.empty() and self._writing.acquire(blocking=False):
            try:
                self._socket.sendall(b"".join(self._all()))
            finally:
                self._writing.release()

    def _all(self) -> Iterator[bytes]:
        try:
            while True:
                yield self._messages.get_nowait()
        except queue.Empty:
            return


def hire() -> Hatch:
    """A clerk, and our side of the hatch to him. He ends with us: his end of the socket tells him."""
    ours, his = socket.socketpair()
    environment = {name: value for name, value in os.environ.items() if name != "SECKILL_DATABASE_POOL"}
    with his:
        command = [sys.executable, "-m", "gateway.clerk", str(his.fileno())]
        clerk = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[his.fileno()], env=environment)
    hatch = Hatch(ours)

    def dismiss() -> None:
        hatch.close()
        try:
            clerk.wait(STOP_S)
        except subprocess.TimeoutExpired:
            clerk.kill()

    atexit.register(dismiss)
    return hatch


class Hatch:
    """The gateway's side. If the clerk dies this process does, too: whoever started it starts both anew."""

    def __init__(self, ours: socket.socket) -> None:
        self._socket = ours
        self._outgoing = Outgoing(ours)
        self._numbers = count(STATE + 1)
        self._waiting: dict[int, Entry[None, Any]] = {}
        self._state: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._asking = threading.Lock()
        self._is_closing = False
        threading.Thread(target=self._read, name="hatch", daemon=True).start()

    def ask(self, call: Call, patience_s: float) -> Accepted:
        number = next(self._numbers)
        entry: Entry[None, Accepted] = Entry(None)
        self._waiting[number] = entry
        self._outgoing.send(packed((number, *call)))
        try:
            return entry.wait(patience_s)
        finally:
            self._waiting.pop(number, None)

    def late(self) -> None:
        self._outgoing.send(packed((LATE,)))

    def state(self) -> State:
        return State(*self._asked()[:3])

    def check(self) -> None:
        if not self._asked()[3]:
            raise ConnectionError("the broker has not been reached yet")

    def close(self) -> None:
        """No more calls; the clerk finishes what he has."""
        self._is_closing = True
        self._socket.shutdown(socket.SHUT_WR)

    def _asked(self) -> Message:
        with self._asking:
            while not self._state.empty():
                self._state.get()  # an answer that came too late
            self._outgoing.send(packed((STATE,)))
            try:
                return self._state.get(timeout=STATE_S)
            except queue.Empty:
                raise TimeoutError("the clerk does not answer") from None

    def _read(self) -> None:
        try:
            for messages in received(self._socket):
                for number, accepted, problem in messages:
                    if number == STATE:
                        self._state.put(accepted)
                    elif (entry := self._waiting.get(number)) is not None:
                        entry.settle(_answer(accepted, problem))
        finally:
            if not self._is_closing:
                log.critical("the clerk is gone, and so is this gateway")
                os._exit(1)
            self._socket.close()


def _answer(accepted: Message | None, problem: Message | None) -> Accepted | BaseException:
    if accepted is not None:
        return Accepted(*accepted)
    if problem is None:
        return RuntimeError("the clerk has failed; his log says why")
    status, kind, detail, retry_after_s, extra = problem
    return Problem(status, kind, detail, retry_after_s=retry_after_s, **extra)
