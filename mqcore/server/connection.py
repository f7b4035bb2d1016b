"""Shell: one connection: bytes → frames → calls → answers, and the answers leave in the order of the requests.

* Frames are parsed where they were received. A handler that keeps bytes beyond its return copies them.
* The receive buffer grows with what has arrived, never with what a length field promises.
* An answer may hold slices of log files: they are read piece by piece as the socket takes them, so a slow reader
  costs one piece of memory. While it does not read, nothing more of it is served.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections import deque
from typing import cast

from mqcore.server.call import ServerCall
from mqcore.server.dispatch import UnsupportedVersion, serve
from mqcore.server.traffic import Traffic
from mqcore.wire.frames import BadFrame
from mqcore.wire.hot import BUFFERS, Piece, SliceLike

log = logging.getLogger(__name__)

FIRST_BUFFER = 16 * 1024
READ_PIECE = 256 * 1024
WRITE_HIGH_WATER = 1024 * 1024
MOST_WAITING_BYTES = 1024 * 1024
LEAST_FRAME = 8

_LENGTH = struct.Struct(">i")


class Connection(asyncio.BufferedProtocol):
    def __init__(self, traffic: Traffic, listener: str) -> None:
        self.traffic = traffic
        self.listener = listener
        self.client_host = ""
        self.last_request_at = time.monotonic()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray(FIRST_BUFFER)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0
        self._frame_began_at: float | None = None
        self._slots: deque[ServerCall] = deque()
        self._outgoing: deque[Piece] = deque()
        self._sent_of_slice = 0
        self._write_paused_at: float | None = None
        self._held = False  # no frames are served: too many unanswered, or the client does not read
        self._starved = False
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
        self.traffic.give_back(len(self._buffer) - FIRST_BUFFER)
        self._outgoing.clear()
        slots, self._slots = self._slots, deque()
        for call in slots:
            if not call.answered:
                call.drop()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._end == len(self._buffer):  # full of frames that are held back
            self._resize(len(self._buffer) + FIRST_BUFFER)
            self.traffic.force(FIRST_BUFFER)
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        self._bytes_in.value += nbytes
        self._read_frames()

    def pause_writing(self) -> None:
        self._write_paused_at = time.monotonic()

    def resume_writing(self) -> None:
        self._write_paused_at = None
        self.pump()

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def _read_frames(self) -> None:
        while self._end - self._start >= 4 and not self._held and self._transport is not None:
            start = self._start
            (size,) = _LENGTH.unpack_from(self._buffer, start)
            if not LEAST_FRAME <= size <= self._frame_limit:
                self._refuse("bad_length", f"a request of {size} bytes")
                return
            stop = start + 4 + size
            if stop > self._end:
                self._make_room(4 + size)
                return
            self._start = stop
            self._frame_began_at = None
            self._serve(self._view[start + 4 : stop])
        if self._start == self._end:
            self._start = self._end = 0
        elif self._end == len(self._buffer):
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
        if self._slots:  # it waits: for its own answer, or for those before it
            call.size = len(frame) + call.answer_bytes
            self._waiting_bytes += call.size
            self.traffic.waiting_bytes += call.size
            self._hold()

    def expect(self, call: ServerCall) -> None:
        """The call takes its place in the order of answers."""
        self._slots.append(call)

    def _make_room(self, whole: int) -> None:
        """The frame at `_start` needs `whole` bytes and is not complete: let the buffer take more."""
        if self._frame_began_at is None:
            self._frame_began_at = time.monotonic()
        have = self._end - self._start
        if self._start:
            self._view[:have] = bytes(self._view[self._start : self._end])
            self._start, self._end = 0, have
        if have < len(self._buffer) or whole <= len(self._buffer):
            return
        larger = min(whole, 2 * len(self._buffer))
        if self.traffic.take(self, larger - len(self._buffer)):
            self._resize(larger)
        else:
            self._starved = True
            self._hold()

    def fed(self) -> None:
        """There is memory again for a connection that was refused some."""
        self._starved = False
        self._hold()
        if self._transport is not None and not self._held:
            self._read_frames()

    def shrink(self) -> None:
        if self._start == self._end and len(self._buffer) > FIRST_BUFFER and not self._starved:
            self.traffic.give_back(len(self._buffer) - FIRST_BUFFER)
            self._start = self._end = 0
            self._resize(FIRST_BUFFER)

    def _resize(self, size: int) -> None:
        buffer = bytearray(size)
        buffer[: self._end] = self._view[: self._end]
        self._buffer, self._view = buffer, memoryview(buffer)

    def _hold(self) -> None:
        """Stop or go on reading, whichever is due."""
        held = self._starved or self._ending or self._write_paused_at is not None or self._has_much_waiting()
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

    def pump(self) -> None:
        """Send whatever is next in order, as far as the socket takes it."""
        while self._may_send():
            if self._outgoing:
                self._send_piece(self._outgoing[0])
            elif self._slots and self._slots[0].pieces is not None:
                call = self._slots.popleft()
                self._outgoing.extend(call.pieces or ())
                if call.size:
                    self._waiting_bytes -= call.size
                    self.traffic.waiting_bytes -= call.size
            else:
                break
        if self._ending:
            self._end_if_done()
        held = self._held
        if held or not self._may_send():
            self._hold()
            if held and not self._held:
                asyncio.get_running_loop().call_soon(self._read_frames)

    def _may_send(self) -> bool:
        return self._transport is not None and self._write_paused_at is None

    def _send_piece(self, piece: Piece) -> None:
        assert self._transport is not None
        if isinstance(piece, BUFFERS):
            self._outgoing.popleft()
            self._bytes_out.value += len(piece)
            self._transport.write(piece)
            return
        data = self._read_piece(piece)
        if data:
            self._sent_of_slice += len(data)
            self._bytes_out.value += len(data)
            self._transport.write(data)
            if self._sent_of_slice == piece.length:
                self._outgoing.popleft()
                self._sent_of_slice = 0

    def _read_piece(self, piece: SliceLike) -> bytes:
        """The next bytes of a slice. Its length was promised to the client, so a shorter one ends the connection."""
        wanted = min(READ_PIECE, piece.length - self._sent_of_slice)
        try:
            data = piece.read_part(self._sent_of_slice, wanted)
        except OSError as fault:
            log.error("a log could not be read", extra={"client": self.client_host, "reason": str(fault)})
            data = b""
        if len(data) < wanted:
            self.abort()
            return b""
        return data

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
        if self._transport is not None:
            self._transport.abort()
            self._outgoing.clear()

    def _refuse(self, reason: str, message: str) -> None:
        self.traffic.metrics.bad_requests.cell(reason).value += 1
        log.warning("bad request", extra={"client": self.client_host, "reason": message})
        self.abort()


def _older(since: float | None, limit: float) -> bool:
    return since is not None and since < limit
