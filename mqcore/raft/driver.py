"""Shell: carries out the decisions of one voter, on the event loop of its broker.

Own rules:
* One event at a time: decide → persist → change the log → apply → answer and send. Nothing leaves before what it relies
  on is durable.
* A decision that cannot be carried out, because the disk is full or fetched bytes are damaged, has not happened.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import assert_never

from mqcore.host import Clock, Timer
from mqcore.identity import BrokerId, LeaderEpoch
from mqcore.links.outcome import LinkFault
from mqcore.log.errors import RETRYABLE_ERRNOS, LogFault
from mqcore.raft.messages import EpochResponse, FetchResponse, FetchSnapshotResponse, Request, Response, Ticket
from mqcore.raft.quorum_file import QuorumFile
from mqcore.raft.quorum_log import FETCH_BYTES_MAX, QuorumLog
from mqcore.raft.ready import (
    Adopt,
    Answered,
    AppendFetched,
    AppendLeaderChange,
    AppendVoters,
    Event,
    LogChange,
    LogMoved,
    Ready,
    Received,
    StoreSnapshotPart,
    Tick,
    Truncate,
    Unanswered,
)
from mqcore.raft.snapshots import DamagedSnapshot
from mqcore.raft.state import QuorumState
from mqcore.raft.voter import Voter
from mqcore.wire.batches import BadBatch
from mqcore.wire.errors import ErrorCode

log = logging.getLogger(__name__)

OnAnswer = Callable[[Response], None]
Send = Callable[[BrokerId, Request, Callable[[Response | LinkFault], None]], None]
"""Sends a request to a node. The callback is called exactly once, and later."""

TURNS_BEFORE_TICK = 2
"""Turns of the event loop: after a stall, what connections have received counts before a deadline does."""


class VoterDriver:
    """`after_step` is called after each decision with the state before it, and `on_failure` when the disk has failed.
    The owner must call `stop` then."""

    def __init__(
        self,
        voter: Voter,
        store: QuorumLog,
        file: QuorumFile,
        clock: Clock,
        send: Send,
        retry_ms: int,
        after_step: Callable[[QuorumState], None],
        on_failure: Callable[[Exception], None],
        fetch_bytes_max: int = FETCH_BYTES_MAX,
    ) -> None:
        self.voter = voter
        self.store = store
        self._file = file
        self._clock = clock
        self._send = send
        self._retry_ms = retry_ms
        self._after_step = after_step
        self._on_failure = on_failure
        self._fetch_bytes_max = fetch_bytes_max
        self._events: deque[Event] = deque()
        self._is_handling = False
        self._is_stopped = False
        self._callers: dict[Ticket, OnAnswer] = {}
        self._last_ticket = Ticket(0)
        self._timer: Timer | None = None
        self._timer_at: int | None = None
        self._not_before = 0  # after a decision that could not be carried out

    def start(self) -> None:
        self._tick()

    def stop(self) -> None:
        """Take no further part. Requests are refused from now on."""
        self._is_stopped = True
        self._set_timer()
        for ticket in list(self._callers):
            self._refuse(ticket)

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    def ask(self, event: Callable[[Ticket], Event], on_answer: OnAnswer) -> None:
        """`on_answer` is called exactly once, now or later."""
        self._last_ticket = ticket = Ticket(self._last_ticket + 1)
        self._callers[ticket] = on_answer
        if self._is_stopped:
            self._refuse(ticket)
        else:
            self.handle(event(ticket))

    def _refuse(self, ticket: Ticket) -> None:
        self._answer(ticket, EpochResponse(ErrorCode.KAFKA_STORAGE_ERROR, self.voter.epoch, None))

    def _answer(self, ticket: Ticket, response: Response) -> None:
        on_answer = self._callers.pop(ticket, None)
        if on_answer is None:
            return
        try:
            response = self._with_bytes(response)
        except (OSError, LogFault) as fault:
            log.error("the metadata log could not be read for another node", extra={"reason": str(fault)})
            response = EpochResponse(ErrorCode.KAFKA_STORAGE_ERROR, self.voter.epoch, None)
        try:
            on_answer(response)
        except Exception:
            log.exception("an answer to another node could not be given")

    def _with_bytes(self, response: Response) -> Response:
        """The response with what is only on the disk."""
        match response:
            case FetchResponse(records_from=offset) if offset is not None:
                return response._replace(records_from=None, records=self.store.read(offset, self._fetch_bytes_max))
            case FetchSnapshotResponse(snapshot=snapshot, position=position) if snapshot is not None:
                data, size = self.store.snapshots.read_part(snapshot, position, self._fetch_bytes_max)
                return response._replace(data=data, size=size)
            case _:
                return response

    def _on_outcome(self, node: BrokerId, request: Request, outcome: Response | LinkFault) -> None:
        if isinstance(outcome, LinkFault):
            self.handle(Unanswered(node, request))
        else:
            self.handle(Answered(node, request, outcome))

    # ── decisions ────────────────────────────────────────────────────────────────────────────────

    def handle(self, event: Event) -> None:
        """Callbacks may lead to further events, which are handled in their order."""
        self._events.append(event)
        if self._is_handling:
            return
        self._is_handling = True
        try:
            while self._events and not self._is_stopped:
                self._take(self._events.popleft())
        finally:
            self._is_handling = False
            self._events.clear()
        self._set_timer()

    def _take(self, event: Event) -> None:
        ready = self.voter.decide(event, self.store, self._clock.now().monotonic_ms)
        try:
            if ready.persist is not None:
                self._file.write(ready.persist)
            if ready.log is not None:
                self._change_log(ready.log, ready.state.election.epoch)
                self._events.append(LogMoved())
        except (BadBatch, DamagedSnapshot) as fault:
            self._drop(event, fault)
        except OSError as fault:
            self._drop(event, fault) if fault.errno in RETRYABLE_ERRNOS else self._on_failure(fault)
        except LogFault as fault:
            self._on_failure(fault)
        else:
            self._carry_out(ready)

    def _change_log(self, change: LogChange, epoch: LeaderEpoch) -> None:
        store, now_ms = self.store, self._clock.wall_ms()
        match change:
            case AppendLeaderChange(granted):
                store.append_leader_change(self.voter.me.id, granted, epoch, now_ms)
            case AppendVoters(voters):
                store.append_voters(voters, epoch, now_ms)
            case AppendFetched(records):
                store.append_fetched(records, now_ms)
            case Truncate(end):
                store.truncate(end)
            case StoreSnapshotPart(snapshot, position, data, is_last):
                store.store_part(snapshot, position, data, is_last=is_last)
            case _:
                assert_never(change)

    def _carry_out(self, ready: Ready) -> None:
        before = self.voter.state
        self.voter.apply(ready)
        for ticket, response in ready.answers:
            self._answer(ticket, response)
        for node, request in ready.sends:
            self._send(node, request, partial(self._on_outcome, node, request))
        self._after_step(before)

    def _drop(self, event: Event, fault: Exception) -> None:
        log.error("a decision of the metadata quorum could not be carried out", extra={"reason": str(fault)})
        self._not_before = self._clock.now().monotonic_ms + self._retry_ms
        match event:
            case Answered(node, request):
                self._events.append(Unanswered(node, request))
            case Received(ticket) | Adopt(ticket):
                self._refuse(ticket)

    # ── time ─────────────────────────────────────────────────────────────────────────────────────

    def _set_timer(self) -> None:
        deadline = None if self._is_stopped else self.voter.deadline(self.store)
        at = None if deadline is None else max(deadline, self._not_before)
        if at == self._timer_at and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = at
        if at is not None:
            self._timer = self._clock.call_later(at - self._clock.now().monotonic_ms, self._on_timer)

    def _on_timer(self, turns: int = TURNS_BEFORE_TICK) -> None:
        then = partial(self._on_timer, turns - 1) if turns else self._tick
        self._timer = self._clock.call_soon(then)

    def _tick(self) -> None:
        self._timer = None
        deadline = self.voter.deadline(self.store)
        if deadline is not None and max(deadline, self._not_before) <= self._clock.now().monotonic_ms:
            self.handle(Tick())
        else:
            self._set_timer()
