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
from mqcore.server.receiving import LEAST_FRAME, Receiving
from mqcore.server.sending import Sending
from mqcore.server.traffic import Traffic, address_of
from mqcore.wire.frames import BadFrame

log = logging.getLogger(__name__)

MOST_WAITING_BYTES = 1024 * 1024
MOST_PIECES = 64
LARGE_ANSWER_BYTES = 64 * 1024
FIRST_FRAME_BYTES_MAX = 1024 * 1024
FRAMES_A_TURN = 32
SECONDS_A_TURN = 0.005


class Connection(asyncio.BufferedProtocol):
    def __init__(self, traffic: Traffic, listener: str) -> None:
        self.traffic = traffic
        self.listener = listener
        self.client_host = self.address = ""
        self.last_request_at = time.monotonic()
        self._transport: asyncio.Transport | None = None
        frame_limit = min(FIRST_FRAME_BYTES_MAX, traffic.config.socket_request_max_bytes)
        self._receiving = Receiving(traffic.receive_budget, frame_limit, self._go_on)
        self._incoming = self._receiving.incoming
        self._slots: deque[ServerCall] = deque()
        self._sending = Sending(traffic.send_budget, traffic.metrics.bytes_out.cell())
        self._pump_is_due = False
        self._held = False  # no frames are served: too many unanswered, or the client does not read
        self._resting = False
        self._ending = False
        self._waiting_bytes = 0  # of requests that wait for their answers
        self._bytes_in = traffic.metrics.bytes_in.cell()
        self._most_waiting = traffic.config.queued_max_requests
        self._has_spoken = False

    # ── asyncio's side ───────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.client_host = str(peer[0]) if peer else "?"
        self.address = self._receiving.address = address_of(self.client_host)
        self._sending.attach(self._transport)
        if not self.traffic.admit(self, self.address):
            self._transport.abort()
            self._transport = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            return
        self._transport = None
        self.traffic.leave(self, self.address)
        self.traffic.waiting_bytes -= self._waiting_bytes
        self._receiving.leave()
        self._sending.detach()
        slots, self._slots = self._slots, deque()
        for call in slots:
            if not call.answered:
                call.drop()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._incoming.is_full:  # of frames that are held back
            self._receiving.force_room()
        return self._incoming.room()

    def buffer_updated(self, nbytes: int) -> None:
        self._incoming.received(nbytes)
        self._bytes_in.value += nbytes
        is_full = self._incoming.is_full
        self._read_frames()
        if is_full and self._pump_is_due:
            self._rest()  # there may be much more, and the loop would read all of it first

    def pause_writing(self) -> None:
        self._sending.pause(time.monotonic())

    def resume_writing(self) -> None:
        self._sending.resume()
        self.pump()

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def _read_frames(self) -> None:
        receiving, incoming = self._receiving, self._incoming
        turn_began: float | None = None
        for _ in range(FRAMES_A_TURN):
            if self._held or self._transport is None:
                break
            length = incoming.next_length()
            if length is None:
                break
            if not LEAST_FRAME <= length <= receiving.frame_limit:
                self._refuse("bad_length", f"a request of {length} bytes, the limit is {receiving.frame_limit}")
                return
            frame = incoming.take(length)
            if frame is None:
                receiving.make_room(4 + length)
                self._hold()
                break
            receiving.frame_began_at = None
            self._serve(frame)
            if incoming:
                turn_began = turn_began or self.last_request_at
                if time.monotonic() - turn_began > SECONDS_A_TURN or self._sending.held > MOST_WAITING_BYTES:
                    self._rest()
        else:
            self._rest()
        if incoming and receiving.frame_began_at is None:
            receiving.frame_began_at = time.monotonic()
        if receiving.reserved:
            receiving.offer_spare()

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
        if not self._has_spoken:
            self._has_spoken = True
            self._receiving.frame_limit = self.traffic.config.socket_request_max_bytes
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

    def _rest(self) -> None:
        """Who sends without end waits for one turn of the loop, so that answers leave and others are served."""
        if not self._resting:
            self._resting = True
            self._hold()
            self.traffic.at_turns_end(self, self._end_rest)

    def _end_rest(self) -> None:
        self._resting = False
        self._go_on()

    def _go_on(self) -> None:
        """Serve what has arrived, if nothing else holds it back."""
        self._hold()
        self._read_frames()

    def shrink(self) -> None:
        self._receiving.shrink()

    def _hold(self) -> None:
        """Stop or go on reading, whichever is due."""
        held = self._receiving.starved or self._resting or self._ending
        held = held or self._sending.stalled_since is not None or self._has_much_waiting()
        if held == self._held or self._transport is None:
            return
        self._held = held
        if held:
            self._transport.pause_reading()
            return
        self._transport.resume_reading()
        if self._receiving.frame_began_at is not None:
            self._receiving.frame_began_at = time.monotonic()  # that it had to wait was not the client's doing

    def _has_much_waiting(self) -> bool:
        """One request may always wait; more of them only as long as they are few and small."""
        waiting = len(self._slots)
        much = self._waiting_bytes > MOST_WAITING_BYTES or self.traffic.is_crowded
        return waiting >= self._most_waiting or (waiting > 0 and much)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def answered(self, size: int) -> None:
        """An answer is ready; `size` bytes of it are in memory."""
        self._sending.count(size)
        if size >= LARGE_ANSWER_BYTES:
            self.pump()  # the kernel may take it now, before others are answered
            self.traffic.limit_unsent()
        elif not self._pump_is_due:
            self._pump_is_due = True
            self.traffic.at_turns_end(self, self.pump)

    def pump(self) -> None:
        """Send whatever is next in order, as far as the socket takes it."""
        self._pump_is_due = False
        slots, sending = self._slots, self._sending
        while self._may_send():
            while slots and slots[0].pieces is not None and len(sending) < MOST_PIECES:
                call = slots.popleft()
                sending.add(call.pieces or ())
                if call.size:
                    self._waiting_bytes -= call.size
                    self.traffic.waiting_bytes -= call.size
            if not sending:
                break
            try:
                sending.write()
            except OSError as fault:
                log.error("a log could not be read", extra={"client": self.client_host, "reason": str(fault)})
                self.abort()
                return
        if self._ending:
            self._end_if_done()
        held = self._held
        if held or not self._may_send():
            self._hold()
            if held and not self._held:
                asyncio.get_running_loop().call_soon(self._read_frames)

    def _may_send(self) -> bool:
        return self._transport is not None and self._sending.stalled_since is None

    # ── ending ───────────────────────────────────────────────────────────────────────────────────

    @property
    def busy(self) -> bool:
        return bool(self._slots or self._sending)

    @property
    def unsent(self) -> tuple[bool, int]:
        """(whether the client has taken nothing for a second, bytes in memory that are to be sent): the connection
        with the most goes first when memory runs out."""
        return _older(self._sending.stalled_since, time.monotonic() - 1), self._sending.held

    def overdue(self, now: float) -> str | None:
        """Why the connection should be closed now, if it should."""
        config = self.traffic.config
        self._sending.look(now)
        may_send = self._receiving.starved or not self._held
        if not self._has_spoken and may_send and now - self.last_request_at > config.first_request_timeout_ms / 1000:
            return "no_request"
        if may_send and _older(self._receiving.frame_began_at, now - config.request_receive_timeout_ms / 1000):
            return "slow_request"
        if _older(self._sending.stalled_since, now - config.response_send_timeout_ms / 1000):
            return "slow_reader"
        if not self.busy and now - self.last_request_at > config.connections_max_idle_ms / 1000:
            return "idle"
        return None

    def excuse(self, seconds: float) -> None:
        """Do not count time in which the broker itself stood still."""
        self.last_request_at += seconds
        if self._receiving.frame_began_at is not None:
            self._receiving.frame_began_at += seconds
        if self._sending.stalled_since is not None:
            self._sending.stalled_since += seconds

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
            self._sending.drop()

    def _refuse(self, reason: str, message: str) -> None:
        self.traffic.complain(reason, self.client_host, message)
        self.pump()
        self.abort()


def _older(since: float | None, limit: float) -> bool:
    return since is not None and since < limit
