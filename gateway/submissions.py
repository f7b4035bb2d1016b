"""Shell: into the queue: whoever waits is admitted in rounds, sent on, and answered once the broker has acknowledged.

A thread waits once, for everything. When the outcome of a produce is unknown nobody says "failed": the buyer is asked
to try again, and his same request is the same event; while one is on its way, the same one joins it. At most three
quarters of the threads wait here; a stalled broker costs purchases and nothing else.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from kafka import KafkaProducer
from kafka.errors import KafkaError
from redis.exceptions import RedisError

from gateway import admission
from gateway.admission import Admitted, Ask, Verdict
from gateway.events import PurchaseRequested
from gateway.places import Place
from gateway.rounds import Entry, Rounds
from seckill.breaker import Breaker
from seckill.problems import Problem
from seckill.streams import faults, traces
from seckill.streams.slots import MOST_DELIVERY_S, NoLease, NotNow, SlotWriter
from seckill.topics import PURCHASE_REQUESTS

THREADS = 64
ACK_S = 3.0
BREAK_S = 1.0
MOST_TOLD = 1000


class Wanted(NamedTuple):
    """What one thread brings: a request at the door, and what it is for."""

    ask: Ask
    sale_id: int
    sku: str
    quantity: int
    traceparent: str


class Turnstile:
    """Rounds of admission, and what has been sent and is not acknowledged yet."""

    def __init__(self) -> None:
        self.breaker = Breaker(most_failures=1, open_s=BREAK_S, try_s=ACK_S)
        self._rounds: Rounds[Wanted, Admitted] = Rounds("turnstile", self._round)
        self._room = threading.BoundedSemaphore(THREADS * 3 // 4)
        self._lock = threading.Lock()
        self._sent: dict[UUID, list[tuple[Entry[Wanted, Admitted], Admitted]]] = {}
        self._placed: dict[UUID, Place] = {}  # acknowledged, and Redis is yet to be told
        self.ends = dict.fromkeys(("acknowledged", "failed"), 0)  # of what was sent

    def pass_through(self, wanted: Wanted) -> Admitted:
        """Admitted and in the queue, at a known place; or the verdict that says why not."""
        if not self._room.acquire(blocking=False):
            raise _unavailable()
        try:
            return self._rounds.ask(wanted, ACK_S)
        except TimeoutError as late:
            self.breaker.failed(time.monotonic())
            raise _unknown() from late
        finally:
            self._room.release()

    @property
    def waiting(self) -> int:
        """Threads that have not got their answer."""
        return THREADS * 3 // 4 - self._room._value

    def _round(self, entries: Sequence[Entry[Wanted, Admitted]]) -> None:
        with self._lock:
            placed = list(islice(self._placed.items(), MOST_TOLD))
        try:
            verdicts = admission.admit([entry.ask.ask for entry in entries], placed)
        except RedisError as fault:
            raise Problem(503, "admission-unavailable", "Nobody can be admitted just now.", retry_after_s=1) from fault
        with self._lock:
            for request_id, _ in placed:
                del self._placed[request_id]
        for entry, admitted in zip(entries, verdicts, strict=True):
            if admitted.verdict in (Verdict.ADMITTED, Verdict.KNOWN) and admitted.place is None:
                self._send(entry, admitted)
            else:
                entry.settle(admitted)

    def _send(self, entry: Entry[Wanted, Admitted], admitted: Admitted) -> None:
        wanted, request_id = entry.ask, entry.ask.ask.request_id
        with self._lock:
            place = self._placed.get(request_id)
            if place is None:
                same = self._sent.setdefault(request_id, [])
                same.append((entry, admitted))
                if len(same) > 1:
                    return
        if place is not None:
            entry.settle(admitted._replace(place=place))
            return
        requested = PurchaseRequested(
            request_id, wanted.ask.user_id, wanted.sale_id, wanted.sku, wanted.quantity, admitted.admitted_at_ms,
            admitted.deadline_ms,
        )  # fmt: skip
        if wanted.ask.full == Verdict.NO_QUEUE.value:  # a known one, at a bad moment
            self._refuse(request_id, _unknown())  # and no failure: who comes back must not keep the breaker open
            return
        try:
            faults.point("gateway.before_produce")
            sent = writer().send(
                wanted.ask.user_id.encode(),
                requested.envelope().encode(),
                [(traces.HEADER, wanted.traceparent.encode())],
            )
        except NoLease as stalled:  # nobody moves anything: broker or database do not answer
            is_new = admitted.verdict is Verdict.ADMITTED  # of a known one something may be under way
            self._refuse(request_id, _unavailable(stalled) if is_new else _unknown(stalled))
        except NotNow as moving:
            self._refuse(request_id, _moving(moving))
        except KafkaError as fault:
            self._failed(request_id, fault)
        except Exception as fault:  # ours: it is theirs who wait for it, and nobody joins it later
            self._refuse(request_id, fault)
        else:
            sent.add_callback(self._acknowledged, request_id)
            sent.add_errback(self._failed, request_id)

    def _acknowledged(self, request_id: UUID, metadata: Any) -> None:
        """On the producer's thread."""
        faults.point("gateway.after_ack")
        place = Place(metadata.topic, metadata.partition, metadata.offset)
        self.breaker.succeeded()
        with self._lock:
            waiting = self._sent.pop(request_id)
            self._placed[request_id] = place
            self.ends["acknowledged"] += 1
        for entry, admitted in waiting:
            entry.settle(admitted._replace(place=place))

    def _failed(self, request_id: UUID, fault: Exception) -> None:
        with self._lock:
            self.ends["failed"] += 1
        self.breaker.failed(time.monotonic())
        self._refuse(request_id, _unknown(fault))

    def _refuse(self, request_id: UUID, why: Exception) -> None:
        with self._lock:
            waiting = self._sent.pop(request_id)
        for entry, _ in waiting:
            entry.settle(why)


def _unavailable(cause: NotNow | None = None) -> Problem:
    problem = Problem(503, "queue-unavailable", "The queue takes nothing just now.", retry_after_s=1)
    problem.__cause__ = cause
    return problem


def _moving(cause: NotNow) -> Problem:
    problem = Problem(503, "queue-moving", "Your place in the queue is being moved.", retry_after_s=1)
    problem.__cause__ = cause
    return problem


def _unknown(cause: Exception | None = None) -> Problem:
    detail = "It is not known whether your request was queued. Send it again, under the same key."
    problem = Problem(503, "queue-unknown", detail, retry_after_s=1)
    problem.__cause__ = cause
    return problem


_making = threading.Lock()


@lru_cache(maxsize=1)
def turnstile() -> Turnstile:
    return Turnstile()


@lru_cache(maxsize=1)
def _make_producer() -> KafkaProducer:
    return KafkaProducer(
        bootstrap_servers=settings.ENVIRONMENT.kafka_bootstrap_servers,
        client_id="gateway",
        acks="all",
        enable_idempotence=True,
        linger_ms=2,
        metrics_enabled=False,  # nobody reads them, and they cost a fifth of its thread
        max_block_ms=1000,
        request_timeout_ms=5_000,
        delivery_timeout_ms=int(MOST_DELIVERY_S * 1000),
        metadata_max_age_ms=5_000,  # partitions that are added are known soon
    )


def producer() -> KafkaProducer:
    with _making:
        return _make_producer()


@lru_cache(maxsize=1)
def _make_writer() -> SlotWriter:
    made = SlotWriter(PURCHASE_REQUESTS, f"gateway.{os.getpid()}", _make_producer())
    atexit.register(made.close)
    return made


def writer() -> SlotWriter:
    """The only one that writes purchase.requests: a user's slot says where to."""
    with _making:
        return _make_writer()


def queue_of(user_id: str) -> str:
    """The topic in which this user would wait; nobody is asked for that."""
    if not _make_writer.cache_info().currsize:
        return PURCHASE_REQUESTS.name
    return _make_writer().goes_to(user_id.encode())
