"""Shell: one connection: bytes → frames → calls → answers, and the answers leave in the order of the requests.

* Frames are parsed where they were received. A handler that keeps bytes beyond its return copies them.
* Answers given in one turn of the event loop leave at its end, those of a connection in one write: system calls, and
  waking a client that sleeps, cost more than answering.
* An answer may hold slices of log files: they are read piece by piece as the socket takes them, so a slow reader
  costs one piece of memory. While it does not read, nothing more of it is served.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from typing import cast

from mqcore.server.call import ServerCall
from mqcore.server.dispatch import UnsupportedVersion, serve
from mqcore.server.incoming import FIRST_BUFFER, Incoming
from mqcore.server.outgoing import Outgoing
from mqcore.server.traffic import Traffic
from mqcore.wire.frames import BadFrame

log = logging.getLogger(__name__)

WRITE_HIGH_WATER = 1024 * 1024
MOST_WAITING_BYTES = 1024 * 1024
MOST_PIECES = 64
JOINED = 16 * 1024  # up to here one copy is cheaper than a list of buffers
LEAST_FRAME = 8
FRAMES_A_TURN = 32


class Connection(asyncio.BufferedProtocol):
    def __init__(self, traffic: Traffic, listener: str) -> None:
        self.traffic = traffic
        self.listener = listener
        self.client_host = ""
        self.last_request_at = time.monotonic()
        self._transport: asyncio.Transport | None = None
        self._incoming = Incoming()
        self._frame_began_at: float | None = None
        self._slots: deque[ServerCall] = deque()
        self._outgoing = Outgoing()
        self._pump_is_due = False
        self._write_paused_at: float | None = None
        self._held = False  # no frames are served: too many unanswered, or the client does not read
        self._starved = False
        self._resting = False
        self._ending = False
        self._waiting_bytes = 0  # of requests that wait for their answers
        self._bytes_in = traffic.metrics.bytes_in.cell()
        self._bytes_out = traffic.metrics.bytes_out.cell()
        self._most_waiting = traffic.config.queued_max_requests
        self._frame_limit = traffic.config.socket_request_max_bytes

    # ── asyncio's side ───────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.client_host = str(peer[0]) if peer else "?"
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)
        if not self.traffic.admit(self, self.client_host):
            self._transport.abort()
            self._transport = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            return
        self._transport = None
        self.traffic.leave(self, self.client_host)
        self.traffic.waiting_bytes -= self._waiting_bytes
        self.traffic.give_back(self._incoming.beyond_first)
        self._outgoing.clear()
        slots, self._slots = self._slots, deque()
        for call in slots:
            if not call.answered:
                call.drop()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._incoming.is_full:  # of frames that are held back
            self._incoming.resize(self._incoming.capacity + FIRST_BUFFER)
            self.traffic.force(FIRST_BUFFER)
        return self._incoming.room()

    def buffer_updated(self, nbytes: int) -> None:
        self._incoming.received(nbytes)
        self._bytes_in.value += nbytes
        is_full = self._incoming.is_full
        self._read_frames()
        if is_full and self._pump_is_due:
            self._rest()  # there may be much more, and the loop would read all of it first

    def pause_writing(self) -> None:
        self._write_paused_at = time.monotonic()

    def resume_writing(self) -> None:
        self._write_paused_at = None
        self.pump()

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def _read_frames(self) -> None:
        incoming = self._incoming
        for _ in range(FRAMES_A_TURN):
            if self._held or self._transport is None:
                break
            length = incoming.next_length()
            if length is None:
                break
            if not LEAST_FRAME <= length <= self._frame_limit:
                self._refuse("bad_length", f"a request of {length} bytes")
                return
            frame = incoming.take(length)
            if frame is None:
                self._make_room(4 + length)
                return
            self._frame_began_at = None
            self._serve(frame)
        else:
            self._rest()
        if incoming:
            self._make_room(4)

    def _serve(self, frame: memoryview) -> None:
        self.last_request_at = time.monotonic()
        try:
            call = serve(self, frame)
        except (BadFrame, UnsupportedVersion) as bad:
            self._refuse("bad_request", str(bad))
            return
        except Exception:
            log.exception("a request could not be served", extra={"client": self.client_host})
            self.abort()
            return
        slots = self._slots
        if slots and not (call.answered and slots[0].answered):  # it waits: for its own answer, or for those before it
            call.size = call.held_bytes(len(frame))
            self._waiting_bytes += call.size
            self.traffic.waiting_bytes += call.size
            self._hold()
        elif len(slots) >= self._most_waiting:
            self._hold()

    def expect(self, call: ServerCall) -> None:
        """The call takes its place in the order of answers."""
        self._slots.append(call)

    def _make_room(self, whole: int) -> None:
        """The next frame needs `whole` bytes and is not complete: let the buffer take more."""
        if self._frame_began_at is None:
            self._frame_began_at = time.monotonic()
        more = self._incoming.make_room(whole)
        if more and self.traffic.take(self, more):
            self._incoming.resize(self._incoming.capacity + more)
        elif more:
            self._starved = True
            self._hold()

    def fed(self) -> None:
        """There is memory again for a connection that was refused some."""
        self._starved = False
        self._hold()
        if self._transport is not None and not self._held:
            self._read_frames()

    def _rest(self) -> None:
        """Who sends without end waits for one turn of the loop, so that answers leave and others are served."""
        if not self._resting:
            self._resting = True
            self._hold()
            self.traffic.at_turns_end(self, self._go_on)

    def _go_on(self) -> None:
        self._resting = False
        self._hold()
        self._read_frames()

    def shrink(self) -> None:
        incoming = self._incoming
        if not incoming and incoming.beyond_first and not self._starved:
            self.traffic.give_back(incoming.beyond_first)
            incoming.resize(FIRST_BUFFER)

    def _hold(self) -> None:
        """Stop or go on reading, whichever is due."""
        held = self._starved or self._resting or self._ending
        held = held or self._write_paused_at is not None or self._has_much_waiting()
        if held == self._held or self._transport is None:
            return
        self._held = held
        if held:
            self._transport.pause_reading()
            return
        self._transport.resume_reading()
        if self._frame_began_at is not None:
            self._frame_began_at = time.monotonic()  # that it had to wait was not the client's doing

    def _has_much_waiting(self) -> bool:
        """One request may always wait; more of them only as long as they are few and small."""
        waiting = len(self._slots)
        much = self._waiting_bytes > MOST_WAITING_BYTES or self.traffic.is_crowded
        return waiting >= self._most_waiting or (waiting > 0 and much)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def pump_soon(self) -> None:
        """An answer is ready."""
        if not self._pump_is_due:
            self._pump_is_due = True
            self.traffic.at_turns_end(self, self.pump)

    def pump(self) -> None:
        """Send whatever is next in order, as far as the socket takes it."""
        self._pump_is_due = False
        slots = self._slots
        while self._may_send():
            while slots and slots[0].pieces is not None and len(self._outgoing) < MOST_PIECES:
                call = slots.popleft()
                self._outgoing.add(call.pieces or ())
                if call.size:
                    self._waiting_bytes -= call.size
                    self.traffic.waiting_bytes -= call.size
            if not self._outgoing:
                break
            self._write_some()
        if self._ending:
            self._end_if_done()
        held = self._held
        if held or not self._may_send():
            self._hold()
            if held and not self._held:
                asyncio.get_running_loop().call_soon(self._read_frames)

    def _may_send(self) -> bool:
        return self._transport is not None and self._write_paused_at is None

    def _write_some(self) -> None:
        assert self._transport is not None
        try:
            parts, size = self._outgoing.take()
        except OSError as fault:
            log.error("a log could not be read", extra={"client": self.client_host, "reason": str(fault)})
            self.abort()
            return
        self._bytes_out.value += size
        if size <= JOINED:
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)

    # ── ending ───────────────────────────────────────────────────────────────────────────────────

    @property
    def busy(self) -> bool:
        return bool(self._slots or self._outgoing)

    def overdue(self, now: float) -> str | None:
        """Why the connection should be closed now, if it should."""
        config = self.traffic.config
        may_send = self._starved or not self._held
        if may_send and _older(self._frame_began_at, now - config.request_receive_timeout_ms / 1000):
            return "slow_request"
        if _older(self._write_paused_at, now - config.response_send_timeout_ms / 1000):
            return "slow_reader"
        if not self.busy and now - self.last_request_at > config.connections_max_idle_ms / 1000:
            return "idle"
        return None

    def end(self) -> None:
        """Serve nothing more; close once every answer has left."""
        self._ending = True
        self._hold()
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._transport is not None and not self.busy:
            self._transport.close()

    def abort(self) -> None:
        self._held = self._ending = True
        if self._transport is not None:
            self._transport.abort()
            self._outgoing.clear()

    def _refuse(self, reason: str, message: str) -> None:
        self.traffic.complain(reason, self.client_host, message)
        self.pump()
        self.abort()


def _older(since: float | None, limit: float) -> bool:
    return since is not None and since < limit
