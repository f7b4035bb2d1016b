"""Shell: one connection: bytes → frames → calls → answers, sent in the order of the requests.

| state  | meaning                                          | next state                                           |
|--------|--------------------------------------------------|------------------------------------------------------|
| new    | no request yet; the first has at most 1 MiB      | first request served → open; timeout → closed        |
| open   | frames are served while no `Reason` holds        | `end` → ending; a limit, fault or timeout → closed   |
| ending | nothing is served; pending answers are sent      | last answer sent, or a timeout → closed              |
| closed | holds no memory, no place and no call            |                                                      |

Invariants:
* The transport is paused exactly while `_reasons` is not empty, and no frame is served while it is paused. Only
  `_apply_backpressure` changes either, except that `abort` leaves the transport as it is.
* `_calls` holds the calls whose answers are not yet handed to `_sending`, in the order of the requests.
* `_receiving.reserved`, `_calls.waiting_bytes` and `_sending.held` are the memory it counts for; all are 0 when closed.

How it works:
* Frames are parsed in the receive buffer. A handler that keeps bytes after it returns copies them.
* Answers given in one turn of the event loop are sent at its end in one write, because system calls cost more.
* Slices of log files in an answer are read piece by piece as the socket takes them. A client that does not read costs
  one piece of memory, and its further requests are not served.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import cast

from mqcore.server import deadlines
from mqcore.server.backpressure import Reason
from mqcore.server.call import Origin
from mqcore.server.call_queue import WAITING_BYTES_MAX, CallQueue
from mqcore.server.connection_limits import address_of
from mqcore.server.context import ServerContext
from mqcore.server.dispatch import UnsupportedVersion, parse_call
from mqcore.server.receiving import FRAME_BYTES_MIN, Receiving
from mqcore.server.sending import Sending
from mqcore.wire.frames import BadFrame

log = logging.getLogger(__name__)

LARGE_ANSWER_BYTES_MIN = 64 * 1024
FRAMES_PER_TURN_MAX = 32
TURN_SECONDS_MAX = 0.005


class Connection(asyncio.BufferedProtocol):
    def __init__(self, context: ServerContext, listener: str) -> None:
        self._context = context
        self._limits = limits = context.limits
        self._seconds = context.services.clock.seconds
        metrics = context.services.metrics
        self.listener = listener
        self.client_host = self.address = ""
        self.last_request_at = self._seconds()
        self._origin = Origin(listener, "")
        self._transport: asyncio.Transport | None = None
        frame_limit = min(context.first_frame_bytes_max, limits.config.socket_request_max_bytes)
        self._receiving = Receiving(limits.receive_budget, frame_limit, self._resume)
        self._incoming = self._receiving.incoming
        self._calls = CallQueue(limits)
        self._sending = Sending(limits.send_budget, metrics.bytes_out.cell())
        self._bytes_in = metrics.bytes_in.cell()
        self._reasons: set[Reason] = set()
        self._is_new = True
        self._send_scheduled = False
        self.when_closed: Callable[[], None] | None = None

    # ── called by asyncio ────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.client_host = str(peer[0]) if peer else "?"
        self.address = self._receiving.address = address_of(self.client_host)
        self._origin = Origin(self.listener, self.client_host)
        self._sending.attach(self._transport)
        if not self._limits.admit(self, self.address):
            self._transport.abort()
            self._transport = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            return
        self._transport = None
        self._limits.remove(self, self.address)
        self._receiving.close()
        self._sending.close()
        self._calls.drop_all()
        if self.when_closed is not None:
            self.when_closed()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._incoming.is_full:  # of frames that are not served yet
            self._receiving.grow_now()
        return self._incoming.free_space()

    def buffer_updated(self, nbytes: int) -> None:
        self._incoming.received(nbytes)
        self._bytes_in.value += nbytes
        was_full = self._incoming.is_full
        self._read_frames()
        if was_full and self._send_scheduled:
            self._yield_turn()  # much more may follow, and the loop would read all of it before it sends answers

    def pause_writing(self) -> None:
        self._sending.pause(self._seconds())

    def resume_writing(self) -> None:
        self._sending.resume()
        self.send_answers()

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    def _read_frames(self) -> None:
        receiving, incoming = self._receiving, self._incoming
        turn_began: float | None = None
        for _ in range(FRAMES_PER_TURN_MAX):
            if self._reasons or self._transport is None:
                break
            length = incoming.next_length()
            if length is None:
                break
            if not FRAME_BYTES_MIN <= length <= receiving.frame_limit:
                self._refuse("bad_length", f"a request of {length} bytes, the limit is {receiving.frame_limit}")
                return
            frame = incoming.take(length)
            if frame is None:
                receiving.make_room(4 + length)
                self._apply_backpressure()
                break
            receiving.frame_began_at = None
            self._serve(frame)
            if incoming:
                turn_began = turn_began or self.last_request_at
                if self._seconds() - turn_began > TURN_SECONDS_MAX or self._sending.held > WAITING_BYTES_MAX:
                    self._yield_turn()
        else:
            self._yield_turn()
        if incoming and receiving.frame_began_at is None:
            receiving.frame_began_at = self._seconds()
        if receiving.reserved:
            receiving.offer_spare_memory()

    def _serve(self, frame: memoryview) -> None:
        self.last_request_at = self._seconds()
        context = self._context
        try:
            call, request = parse_call(context.apis, context.services, frame, self._origin)
            self._calls.waiting.append(call)
            call.run(request, self)
        except (BadFrame, UnsupportedVersion) as bad:
            self._refuse("bad_request", str(bad))
            return
        except Exception:
            log.exception("a request could not be served", extra={"client": self.client_host})
            self.abort()
            return
        if self._is_new:
            self._is_new = False
            self._receiving.frame_limit = self._limits.config.socket_request_max_bytes
        if self._calls.count_if_waiting(call, len(frame)):
            self._apply_backpressure()

    def shrink(self) -> None:
        self._receiving.shrink()

    # ── backpressure ─────────────────────────────────────────────────────────────────────────────

    def _apply_backpressure(self, add: Reason | None = None, remove: Reason | None = None) -> None:
        """Bring the reasons up to date, and pause or resume reading to match them."""
        if self._transport is None:
            return
        reasons = self._reasons
        was_paused = bool(reasons)
        if add is not None:
            reasons.add(add)
        if remove is not None:
            reasons.discard(remove)
        for reason, holds in (
            (Reason.STARVED, self._receiving.is_starved),
            (Reason.WAITING, self._calls.has_too_much_waiting),
            (Reason.STALLED, self._sending.stalled_since is not None),
        ):
            (reasons.add if holds else reasons.discard)(reason)
        if bool(reasons) == was_paused:
            return
        if reasons:
            self._transport.pause_reading()
            return
        self._transport.resume_reading()
        if self._receiving.frame_began_at is not None:
            self._receiving.frame_began_at = self._seconds()  # do not count the time we held the client back

    def _yield_turn(self) -> None:
        """Make a client that never stops sending wait for one turn, so that answers go out and others are served."""
        if Reason.YIELDING not in self._reasons:
            self._apply_backpressure(add=Reason.YIELDING)
            self._context.turns.run_at_end(self, partial(self._resume, Reason.YIELDING))

    def _resume(self, ended: Reason | None = None) -> None:
        """Serve what has arrived, unless another reason holds."""
        self._apply_backpressure(remove=ended)
        self._read_frames()

    # ── answers ──────────────────────────────────────────────────────────────────────────────────

    def on_answer(self, buffered_bytes: int) -> None:
        self._sending.charge(buffered_bytes)
        if buffered_bytes >= LARGE_ANSWER_BYTES_MIN:
            self.send_answers()  # the kernel may take it now, before other requests are answered
            self._limits.limit_unsent()
        elif not self._send_scheduled:
            self._send_scheduled = True
            self._context.turns.run_at_end(self, self.send_answers)

    def send_answers(self) -> None:
        """Send the answers that are ready, in order, as far as the socket takes them."""
        self._send_scheduled = False
        calls, sending = self._calls, self._sending
        while self._may_send():
            calls.move_answers(sending)
            if not sending:
                break
            try:
                sending.write()
            except OSError as fault:
                log.error("a log could not be read", extra={"client": self.client_host, "reason": str(fault)})
                self.abort()
                return
            if not (calls.waiting or sending):
                break
        if self._reasons and Reason.ENDING in self._reasons:
            self._close_if_done()
        was_paused = bool(self._reasons)
        if was_paused or not self._may_send():
            self._apply_backpressure()
            if was_paused and not self._reasons:
                self._context.services.clock.call_soon(self._read_frames)

    def _may_send(self) -> bool:
        return self._transport is not None and self._sending.stalled_since is None

    # ── limits ───────────────────────────────────────────────────────────────────────────────────

    @property
    def is_busy(self) -> bool:
        return bool(self._calls or self._sending)

    @property
    def unsent(self) -> tuple[bool, int]:
        """(the client has taken nothing for a second, bytes in memory). If memory runs out, the largest is closed."""
        stalled_since = self._sending.stalled_since
        return stalled_since is not None and stalled_since < self._seconds() - 1, self._sending.held

    def overdue_reason(self, now: float) -> str | None:
        """Why the connection should be closed now, or None."""
        receiving, sending = self._receiving, self._sending
        sending.check_progress(now)
        progress = deadlines.Progress(
            is_new=self._is_new,
            may_receive=not self._reasons or Reason.STARVED in self._reasons,
            is_busy=self.is_busy,
            last_request_at=self.last_request_at,
            frame_began_at=receiving.frame_began_at,
            stalled_since=sending.stalled_since,
        )
        return deadlines.overdue_reason(progress, self._limits.config, now)

    def extend_deadlines(self, seconds: float) -> None:
        self.last_request_at += seconds
        if self._receiving.frame_began_at is not None:
            self._receiving.frame_began_at += seconds
        if self._sending.stalled_since is not None:
            self._sending.stalled_since += seconds

    # ── closing ──────────────────────────────────────────────────────────────────────────────────

    def end(self) -> None:
        """Serve nothing more; close once every answer has been sent."""
        self._apply_backpressure(add=Reason.ENDING)
        self._close_if_done()

    def abort(self) -> None:
        self._reasons.add(Reason.ENDING)
        if self._transport is not None:
            self._transport.abort()
            self._sending.discard()

    def _close_if_done(self) -> None:
        if self._transport is not None and not self.is_busy:
            self._transport.close()

    def _refuse(self, reason: str, detail: str) -> None:
        self._limits.count_closed(reason, self.client_host, detail)
        self.send_answers()
        self.abort()
