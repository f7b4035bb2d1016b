"""Enqueueing purchases: on a real Redis, with a producer that does what the test wants."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from gateway.desk import Desk
from gateway.door import Door, Here
from gateway.serving import THREADS
from gateway.submissions import Turnstile, Wanted
from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kafka.future import Future
from redis import Redis

from gateway import door as doors
from gateway import submissions
from gateway.admission import AdmissionRequest, AdmissionResult, Verdict
from gateway.admission_script import SINCE_KEY
from seckill.messaging.slots import NoLease, SlotUnavailable
from seckill.messaging.topics import PURCHASE_REQUESTS
from seckill.resilience.circuit_breaker import Permit
from seckill.web.problems import Problem
from tests.services import together, until

pytestmark = pytest.mark.usefixtures("redis")

FOREVER = 10**15
OPENED_MS = int(time.time() * 1000) - 60_000


@dataclass(slots=True)
class Producer:
    """Acknowledges at once, unless the test makes it stall or fail."""

    is_stalled: bool = False
    fault: Exception | None = None
    sent: list[dict[str, Any]] = field(default_factory=list)
    held: list[Future] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self, key: bytes, value: bytes, headers: Sequence[tuple[str, bytes]]) -> Future:
        if self.fault is not None:
            raise self.fault
        future = Future()
        with self.lock:
            self.sent.append({"key": key, "value": value, "headers": headers})
            offset = len(self.sent) - 1
        if self.is_stalled:
            self.held.append(future)
        else:
            future.success(SimpleNamespace(topic=PURCHASE_REQUESTS.name, partition=0, offset=offset))
        return future


@pytest.fixture(autouse=True)
def remembering_since_before_the_opening(redis: Redis) -> None:
    """So a request that Redis does not know is certainly new."""
    redis.set(SINCE_KEY, OPENED_MS - 1)


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Producer]:
    producer = Producer()
    monkeypatch.setattr(submissions, "writer", lambda: producer)
    yield producer


def wanted(request_id: UUID | None = None, **different: Any) -> Wanted:
    request_id = request_id or uuid4()
    ask = AdmissionRequest(
        request_id, "0" * 16, f"u-{request_id}", f"{request_id.hex}", OPENED_MS, FOREVER, ticket_number=request_id.hex
    )
    return Wanted(ask._replace(ticket_expires_at_ms=FOREVER, **different), 1, "phone", 1, "00-trace")


class Gate:
    """A door and a turnstile. Calls are parsed already, and the answer is the bare result of admission."""

    def __init__(self) -> None:
        self.turnstile: Turnstile[Wanted, AdmissionResult] = Turnstile(lambda each: each, lambda _, admitted: admitted)
        self.door = Door(Here(cast(Desk, SimpleNamespace(turnstile=self.turnstile))))
        self.breaker = self.turnstile.breaker

    def pass_through(self, each: Wanted) -> AdmissionResult:
        return self.door.pass_through(each)  # type: ignore[arg-type, return-value]  # as the two above have it


def passing(gate: Gate, each: Wanted) -> Callable[[], AdmissionResult]:
    return lambda: gate.pass_through(each)


def test_every_caller_gets_the_position_of_its_own_request(producer: Producer) -> None:
    gate = Gate()
    crowd = [wanted() for _ in range(40)]
    answers = together([passing(gate, each) for each in crowd])
    for each, answer in zip(crowd, answers, strict=True):
        assert isinstance(answer, AdmissionResult) and answer.position is not None
        record = producer.sent[answer.position.offset]
        assert record["key"] == each.ask.user_id.encode()
        assert str(each.ask.request_id).encode() in record["value"]
        assert ("traceparent", b"00-trace") in record["headers"]


def test_equal_simultaneous_calls_are_one_record_and_a_later_one_adds_none(producer: Producer) -> None:
    gate, request_id = Gate(), uuid4()
    answers = together([passing(gate, wanted(request_id)) for _ in range(20)])
    answers.append(gate.pass_through(wanted(request_id)))
    assert len(producer.sent) == 1
    assert {answer.position for answer in answers if isinstance(answer, AdmissionResult)} == {
        (PURCHASE_REQUESTS.name, 0, 0)
    }
    assert len(answers) == 21 and not any(isinstance(answer, BaseException) for answer in answers)


class WithoutJoining(dict[UUID, list[Any]]):
    """In place of the turnstile's table of requests under way: an equal call finds nothing there to join."""

    def __init__(self) -> None:
        self.callers: list[Any] = []

    def setdefault(self, key: UUID, default: Any = None) -> list[Any]:
        outer = self

        class Alone(list[Any]):
            def append(self, caller: Any) -> None:
                super().append(caller)
                outer.callers.append(caller)

        return Alone()

    def pop(self, key: UUID, *default: Any) -> list[Any]:
        callers, self.callers = self.callers, []
        return callers


@pytest.mark.parametrize(("joins", "records"), [(True, 1), (False, 20)])
def test_equal_calls_join_the_one_under_way_and_without_joining_each_is_a_record(
    producer: Producer, joins: bool, records: int
) -> None:
    """The second case is the control: with joining switched off, the same twenty calls are twenty records."""
    gate, request_id = Gate(), uuid4()
    producer.is_stalled = True
    arrived = WithoutJoining()
    if not joins:
        gate.turnstile._sent = arrived
    with ThreadPoolExecutor(20) as pool:
        calls = [pool.submit(gate.pass_through, wanted(request_id)) for _ in range(20)]
        waiting = (lambda: len(gate.turnstile._sent.get(request_id, ()))) if joins else (lambda: len(arrived.callers))
        until(lambda: waiting() == 20, "all callers to wait")
        assert len(producer.sent) == records
        for offset, future in enumerate(producer.held):
            future.success(SimpleNamespace(topic=PURCHASE_REQUESTS.name, partition=0, offset=offset))
        assert {call.result().position for call in calls} == {(PURCHASE_REQUESTS.name, 0, 0)}


def test_a_refused_request_is_not_sent(producer: Producer) -> None:
    assert Gate().pass_through(wanted(full="sold_out")).verdict is Verdict.SOLD_OUT
    assert producer.sent == []


def test_while_the_broker_stalls_three_quarters_of_the_threads_wait_and_the_rest_are_refused(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doors, "ACK_S", 20.0)
    producer.is_stalled = True
    gate = Gate()
    answers: list[object] = []

    def one() -> None:
        try:
            answers.append(gate.pass_through(wanted()))
        except Problem as problem:
            answers.append(problem.kind)

    crowd = [threading.Thread(target=one) for _ in range(THREADS)]
    for each in crowd:
        each.start()
    room = THREADS * 3 // 4
    until(lambda: len(producer.held) == room and len(answers) == THREADS - room, "all to wait or to have gone")
    assert answers == ["queue-unavailable"] * (THREADS - room)
    for number, future in enumerate(producer.held):
        future.success(SimpleNamespace(topic="purchase.requests", partition=0, offset=number))
    for each in crowd:
        each.join(20)
    assert sum(isinstance(answer, AdmissionResult) for answer in answers) == room


def test_an_unknown_outcome_is_never_called_a_failure_and_the_retry_is_the_same_event(producer: Producer) -> None:
    producer.fault = KafkaTimeoutError("nobody answers")
    gate, again = Gate(), wanted()
    with pytest.raises(Problem) as told:
        gate.pass_through(again)
    assert (told.value.status, told.value.kind, told.value.retry_after_s) == (503, "queue-unknown", 1)
    producer.fault = None
    assert gate.pass_through(again).verdict is Verdict.KNOWN
    assert len(producer.sent) == 1


def test_retries_during_an_open_breaker_do_not_keep_it_open(producer: Producer) -> None:
    producer.fault = KafkaConnectionError("gone")
    gate, known = Gate(), wanted()
    with pytest.raises(Problem):
        gate.pass_through(known)
    gate.breaker.record_failure(-1000.0)  # the breaker's pause is long over
    back = known._replace(ask=known.ask._replace(full=Verdict.NO_QUEUE.value))
    with pytest.raises(Problem) as told:
        gate.pass_through(back)
    assert told.value.kind == "queue-unknown"
    assert gate.breaker.allows_call(0.0), "one request is the probe"


def test_a_failure_opens_the_breaker_and_an_acknowledgement_closes_it(producer: Producer) -> None:
    producer.fault = KafkaConnectionError("gone")
    gate = Gate()
    with pytest.raises(Problem):
        gate.pass_through(wanted())
    assert not gate.breaker.allows_call(0.0)
    producer.fault = None
    gate.pass_through(wanted())
    assert gate.breaker.allows_call(0.0)


@pytest.mark.parametrize("junk", [{"ticket": "ticket_missing"}, {"opens_at_ms": FOREVER}, {"shut": "paused"}])
def test_refused_calls_do_not_use_up_the_breakers_probe(producer: Producer, junk: dict[str, Any]) -> None:
    gate = Gate()
    gate.breaker.record_failure(-1000.0)  # half-open: one probe is allowed
    for _ in range(20):
        assert gate.turnstile.permit("somebody") is Permit.PROBE
        probe = wanted(**junk)._replace(give_back=lambda: gate.turnstile.give_back("somebody"))
        assert gate.pass_through(probe).verdict.value in ("ticket_missing", "not_open_yet", "paused")
    assert gate.turnstile.permit("honest") is Permit.PROBE
    assert gate.turnstile.permit("other") is Permit.NO, "the control: a probe under way uses it up"
    gate.pass_through(wanted())
    assert gate.turnstile.permit("other") is Permit.YES


def test_an_open_breaker_stops_a_known_request_without_a_position(producer: Producer) -> None:
    producer.fault = KafkaConnectionError("gone")
    gate, again = Gate(), wanted()
    with pytest.raises(Problem):
        gate.pass_through(again)
    producer.fault = None
    with pytest.raises(Problem, match="not known"):
        gate.pass_through(again._replace(ask=again.ask._replace(full=Verdict.NO_QUEUE.value)))
    assert producer.sent == []


def test_an_expired_slot_lease_is_answered_as_queue_unavailable(producer: Producer) -> None:
    """Database or broker stall. No slot is moving, so `queue-moving` would be wrong."""
    producer.fault = NoLease("the lease has ended")
    gate, asked = Gate(), wanted()
    for kind in ("queue-unavailable", "queue-unknown"):  # a known request may still be under way
        with pytest.raises(Problem) as refused:
            gate.pass_through(asked)
        assert (refused.value.status, refused.value.kind) == (503, kind)


def test_a_moving_slot_refuses_only_its_own_buyers(producer: Producer) -> None:
    gate = Gate()
    producer.fault = SlotUnavailable("slot 7 is being moved")
    with pytest.raises(Problem) as refused:
        gate.pass_through(wanted())
    assert (refused.value.status, refused.value.kind) == (503, "queue-moving")
    producer.fault = None
    assert gate.pass_through(wanted()).position is not None


def test_an_internal_error_is_reported_and_does_not_block_the_retry(producer: Producer) -> None:
    gate, mine = Gate(), wanted()
    producer.fault = ValueError("no such partition")
    with pytest.raises(ValueError, match="no such partition"):
        gate.pass_through(mine)
    producer.fault = None
    assert gate.pass_through(mine).position is not None
