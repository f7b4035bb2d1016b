"""Shell: into the queue: whoever waits is admitted in rounds, sent on, and answered once the broker has acknowledged.

When the outcome of a produce is unknown nobody says "failed": the buyer is asked to try again, and his same request is
the same event; while one is on its way, the same one joins it.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

from django.conf import settings
from kafka import KafkaProducer
from kafka.errors import KafkaError
from redis.exceptions import RedisError

from gateway import admission_fallback
from gateway.admission import AdmissionRequest, AdmissionResult, Verdict
from gateway.breakers import Partition, QueueBreakers
from gateway.events import PurchaseRequested
from seckill.messaging import fault_points
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.slots import DELIVERY_SECONDS_MAX, NoLease, SlotUnavailable, SlotWriter
from seckill.messaging.topics import PURCHASE_REQUESTS
from seckill.monitoring import traces
from seckill.resilience.circuit_breaker import Permit
from seckill.web.problems import Problem

ACK_S = 3.0
LATE_S = 0.9 * ACK_S  # under way for so long: not acknowledged when its caller gives up
BREAK_S = 1.0
REPORTED_MAX = 1000
QUEUED = (Verdict.ADMITTED, Verdict.KNOWN)
GiveBack = Callable[[], None]
Call = TypeVar("Call")
Answer = TypeVar("Answer")
Call_co = TypeVar("Call_co", covariant=True)
Answer_contra = TypeVar("Answer_contra", contravariant=True)


class Wanted(NamedTuple):
    """A request at the door, and what it is for."""

    ask: AdmissionRequest
    sale_id: int
    sku: str
    quantity: int
    traceparent: str
    give_back: GiveBack | None = None  # of a probe: to be called if this request is not sent


class Waiting(Protocol[Call_co, Answer_contra]):
    """Somebody who waits. Settled once; what comes later is not heard."""

    @property
    def ask(self) -> Call_co: ...

    def settle(self, answer: Answer_contra | BaseException) -> None: ...


class Arrived(NamedTuple, Generic[Call, Answer]):
    """Somebody who waits, what he wants, and what admission has said; from then on by the request's name."""

    waiting: Waiting[Call, Answer]
    wanted: Wanted
    admitted: AdmissionResult


class State(NamedTuple):
    """What has come of what was sent, and how the breaker stands."""

    acknowledged: int
    failed: int
    breaker: int


class Turnstile(Generic[Call, Answer]):
    """Rounds of admission, and what has been sent and is not acknowledged yet.

    `read` says what a call wants, `answer` what it is told, of who is in the queue once his place is known. What either
    of them raises is the answer.
    """

    def __init__(self, read: Callable[[Call], Wanted], answer: Callable[[Wanted, AdmissionResult], Answer]) -> None:
        self._breakers = QueueBreakers(BREAK_S, ACK_S, LATE_S)
        self.breaker = self._breakers.of_broker
        self._read, self._answer = read, answer
        self._lock = threading.Lock()
        self._sent: dict[UUID, list[Arrived[Call, Answer]]] = {}
        self._under_way: dict[UUID, tuple[float, Partition | None]] = {}  # since when, to where
        self._placed: dict[UUID, RecordPosition] = {}  # acknowledged, and Redis is yet to be told
        self._acknowledged_count = self._failed_count = 0  # of what was sent

    def permit(self, user_id: str) -> Permit:
        """May a request of this user be sent?"""
        return self._breakers.permit(partition_of(user_id), time.monotonic())

    def give_back(self, user_id: str) -> None:
        """The probe of this user was not sent."""
        self._breakers.give_back(partition_of(user_id), time.monotonic())

    def late(self) -> None:
        """A caller got no answer in time."""
        now = time.monotonic()
        with self._lock:
            overdue = {to for since, to in self._under_way.values() if now - since >= LATE_S}
        self._breakers.record_failed(overdue, now)

    def state(self) -> State:
        return State(self._acknowledged_count, self._failed_count, self.breaker.state(time.monotonic()).value)

    def round(self, crowd: Sequence[Waiting[Call, Answer]]) -> None:
        """Each is settled, here or once the broker has answered. What this raises is for those who are not."""
        callers, read = [], []
        for waiting in crowd:
            try:
                read.append(self._read(waiting.ask))
                callers.append(waiting)
            except Exception as fault:
                waiting.settle(fault)
        if not callers:
            return
        with self._lock:
            placed = list(islice(self._placed.items(), REPORTED_MAX))
        try:
            verdicts = admission_fallback.admit_requests([wanted.ask for wanted in read], placed)
        except RedisError as fault:
            for wanted in read:
                _not_sent(wanted)
            raise Problem(503, "admission-unavailable", "Nobody can be admitted just now.", retry_after_s=1) from fault
        with self._lock:
            for request_id, _ in placed:
                del self._placed[request_id]
        for arrived in map(Arrived, callers, read, verdicts):
            if arrived.admitted.verdict in QUEUED and arrived.admitted.position is None:
                self._send(arrived)
            else:
                _not_sent(arrived.wanted)
                self._settle(arrived, arrived.admitted)

    def _settle(self, arrived: Arrived[Call, Answer], admitted: AdmissionResult) -> None:
        try:
            arrived.waiting.settle(self._answer(arrived.wanted, admitted))
        except Exception as fault:
            arrived.waiting.settle(fault)

    def _send(self, arrived: Arrived[Call, Answer]) -> None:
        wanted, admitted = arrived.wanted, arrived.admitted
        request_id = wanted.ask.request_id
        with self._lock:
            place = self._placed.get(request_id)
            if place is None:
                same = self._sent.setdefault(request_id, [])
                same.append(arrived)
                if len(same) > 1:
                    _not_sent(wanted)
                    return
        if place is not None:
            _not_sent(wanted)
            self._settle(arrived, admitted._replace(position=place))
            return
        requested = PurchaseRequested(
            request_id, wanted.ask.user_id, wanted.sale_id, wanted.sku, wanted.quantity, admitted.admitted_at_ms,
            admitted.deadline_ms,
        )  # fmt: skip
        if wanted.ask.full == Verdict.NO_QUEUE.value:  # a known one, at a bad moment
            self._refuse(request_id, unknown())  # and no failure: who comes back must not keep the breaker open
            return
        with self._lock:
            self._under_way[request_id] = time.monotonic(), partition_of(wanted.ask.user_id)
        try:
            fault_points.trigger("gateway.before_produce")
            sent = writer().send(
                wanted.ask.user_id.encode(),
                requested.envelope().encode(),
                [(traces.HEADER, wanted.traceparent.encode())],
            )
        except NoLease as stalled:  # nobody moves anything: broker or database do not answer
            _not_sent(wanted)
            is_new = admitted.verdict is Verdict.ADMITTED  # of a known one something may be under way
            self._refuse(request_id, unavailable(stalled) if is_new else unknown(stalled))
        except SlotUnavailable as moving:
            _not_sent(wanted)
            self._refuse(request_id, _moving(moving))
        except KafkaError as fault:
            self._failed(request_id, fault)
        except Exception as fault:  # ours: it is theirs who wait for it, and nobody joins it later
            _not_sent(wanted)
            self._refuse(request_id, fault)
        else:
            sent.add_callback(self._acknowledged, request_id)
            sent.add_errback(self._failed, request_id)

    def _acknowledged(self, request_id: UUID, metadata: Any) -> None:
        fault_points.trigger("gateway.after_ack")
        place = RecordPosition(metadata.topic, metadata.partition, metadata.offset)
        self._breakers.record_acknowledged((place.topic, place.partition), time.monotonic())
        with self._lock:
            self._under_way.pop(request_id, None)
            waiting = self._sent.pop(request_id)
            self._placed[request_id] = place
            self._acknowledged_count += 1
        for arrived in waiting:
            self._settle(arrived, arrived.admitted._replace(position=place))

    def _failed(self, request_id: UUID, fault: Exception) -> None:
        with self._lock:
            self._failed_count += 1
            _, to = self._under_way.pop(request_id, (0.0, None))
        self._breakers.record_failed([to], time.monotonic())
        self._refuse(request_id, unknown(fault))

    def _refuse(self, request_id: UUID, why: Exception) -> None:
        with self._lock:
            self._under_way.pop(request_id, None)
            waiting = self._sent.pop(request_id)
        for arrived in waiting:
            arrived.waiting.settle(why)


def _not_sent(wanted: Wanted) -> None:
    if wanted.give_back is not None:
        wanted.give_back()


def unavailable(cause: SlotUnavailable | None = None) -> Problem:
    problem = Problem(503, "queue-unavailable", "The queue takes nothing just now.", retry_after_s=1)
    problem.__cause__ = cause
    return problem


def _moving(cause: SlotUnavailable) -> Problem:
    problem = Problem(503, "queue-moving", "Your place in the queue is being moved.", retry_after_s=1)
    problem.__cause__ = cause
    return problem


def unknown(cause: Exception | None = None) -> Problem:
    detail = "It is not known whether your request was queued. Send it again, under the same key."
    problem = Problem(503, "queue-unknown", detail, retry_after_s=1)
    problem.__cause__ = cause
    return problem


_making = threading.Lock()


@lru_cache(maxsize=1)
def _make_producer() -> KafkaProducer:
    return KafkaProducer(
        bootstrap_servers=settings.ENVIRONMENT.kafka_bootstrap_servers,
        client_id="gateway",
        acks="all",
        # With one partition offline, kafka-python 3.0.12 sends to none if it is idempotent. Two equal requests are one.
        enable_idempotence=False, max_in_flight_requests_per_connection=1, linger_ms=2,
        metrics_enabled=False,  # nobody reads them, and they cost a fifth of its thread
        max_block_ms=1000,
        request_timeout_ms=5_000,
        delivery_timeout_ms=int(DELIVERY_SECONDS_MAX * 1000),
        metadata_max_age_ms=5_000,  # partitions that are added are known soon
    )  # fmt: skip


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
    return _make_writer().topic_for(user_id.encode())


def partition_of(user_id: str) -> Partition | None:
    """Where this user's requests go, as far as this process knows; nobody is asked for that."""
    if not _make_writer.cache_info().currsize:
        return None
    return _make_writer().partition_for(user_id.encode())
