"""Shell: the hatch between a gateway and its clerk: calls go through in one direction, answers in the other.

A message is four bytes of length and plain values as `marshal` writes them: both ends are the same interpreter, and
nobody else holds the socket. A call is (number, *Call), an answer (number, Accepted or None, problem or None).

The gateway's side lives on its event loop. Who asks on a greenlet of that loop (gateway/serving.py) waits without a
thread; anybody else asks from a thread of his own, and that one waits.
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
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, NamedTuple

from greenlet import getcurrent

from gateway.desk import Accepted, Call
from gateway.rounds import Entry
from gateway.submissions import State
from seckill.web.problems import Problem

log = logging.getLogger(__name__)

STOP_S = 5.0
LATE, STATE = 0, 1
"""Numbers of a call that is none: somebody waited in vain; how does it stand?"""
BYTES_MAX = 256 * 1024
STATE_S = 1.0
LOOK_S = 0.1
AT_ONCE = 8
"""So many calls go through without waiting for more: the clerk shall begin while others are still being read."""

Message = tuple[Any, ...]


def packed(message: Message) -> bytes:
    content = marshal.dumps(message)
    return len(content).to_bytes(4, "big") + content


class Parts:
    """Messages, however they are cut."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, chunk: bytes) -> list[Message]:
        """All that are whole by now."""
        content = self._rest + chunk
        messages, at = [], 0
        while at + 4 <= len(content):
            end = at + 4 + int.from_bytes(content[at : at + 4], "big")
            if end > len(content):
                break
            messages.append(marshal.loads(content[at + 4 : end]))  # from our own child process  # nosec B302
            at = end
        self._rest = content[at:]
        return messages


def received(ours: socket.socket) -> Iterator[list[Message]]:
    """All that has come, each time something has; ends when the other side does."""
    parts = Parts()
    while chunk := ours.recv(BYTES_MAX):
        yield parts.take(chunk)


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


class _Waiting(NamedTuple):
    until: float
    settle: Callable[[Any], Any]


class Hatch:
    """The gateway's side. If the clerk dies this process does, too: whoever started it starts both anew."""

    def __init__(self, ours: socket.socket) -> None:
        ours.setblocking(False)
        self._socket = ours
        self._numbers = count(STATE + 1)
        self._waiting: dict[int, _Waiting] = {}
        self._parts = Parts()
        self._outgoing = bytearray()
        self._unsent = 0
        self._is_full = False
        self._state: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._asking = threading.Lock()
        self._is_closing = False

    def open(self, loop: AbstractEventLoop) -> None:
        """From now on whoever asks is heard; on the loop's own thread."""
        self._loop = loop
        loop.add_reader(self._socket, self._read)
        loop.call_later(LOOK_S, self._look)

    def ask(self, call: Call, patience_s: float) -> Accepted:
        me = getcurrent()
        if me.parent is None:
            entry: Entry[None, Accepted] = Entry(None)
            self._loop.call_soon_threadsafe(self._call, call, patience_s, entry.settle)
            return entry.wait(patience_s)
        self._call(call, patience_s, me.switch)
        answer: Accepted | BaseException = me.parent.switch()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def late(self) -> None:
        self._loop.call_soon_threadsafe(self._send, (LATE,))

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
        """On a thread."""
        with self._asking:
            while not self._state.empty():
                self._state.get()  # an answer that came too late
            self._loop.call_soon_threadsafe(self._send, (STATE,))
            try:
                return self._state.get(timeout=STATE_S)
            except queue.Empty:
                raise TimeoutError("the clerk does not answer") from None

    # ── on the loop's thread ──

    def _call(self, call: Call, patience_s: float, settle: Callable[[Any], Any]) -> None:
        number = next(self._numbers)
        self._waiting[number] = _Waiting(time.monotonic() + patience_s, settle)
        self._send((number, *call))

    def _send(self, message: Message) -> None:
        self._outgoing += packed(message)
        self._unsent += 1
        if self._unsent == 1:
            self._loop.call_soon(self._flush)
        elif self._unsent == AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        """As much as goes through; a clerk who does not take it keeps nobody but his callers."""
        self._unsent = 0
        try:
            del self._outgoing[: self._socket.send(self._outgoing)]
        except BlockingIOError:
            pass
        except OSError:
            return  # he is gone, which `_read` is told as well
        if self._outgoing and not self._is_full:
            self._loop.add_writer(self._socket, self._flush)
        elif self._is_full and not self._outgoing:
            self._loop.remove_writer(self._socket)
        self._is_full = bool(self._outgoing)

    def _read(self) -> None:
        try:
            chunk = self._socket.recv(BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._loop.remove_reader(self._socket)
            if not self._is_closing:
                log.critical("the clerk is gone, and so is this gateway")
                os._exit(1)
        for number, accepted, problem in self._parts.take(chunk):
            if number == STATE:
                self._state.put(accepted)
            elif (waiting := self._waiting.pop(number, None)) is not None:
                waiting.settle(_answer(accepted, problem))

    def _look(self) -> None:
        """Who has waited for too long?"""
        now = time.monotonic()
        for number in [number for number, waiting in self._waiting.items() if waiting.until <= now]:
            self._waiting.pop(number).settle(TimeoutError("the clerk does not answer"))
        self._loop.call_later(LOOK_S, self._look)


def _answer(accepted: Message | None, problem: Message | None) -> Accepted | BaseException:
    if accepted is not None:
        return Accepted(*accepted)
    if problem is None:
        return RuntimeError("the clerk has failed; his log says why")
    status, kind, detail, retry_after_s, extra = problem
    return Problem(status, kind, detail, retry_after_s=retry_after_s, **extra)
