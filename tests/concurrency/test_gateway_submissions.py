"""Through the turnstile: on a real Redis, with a producer that does what the test wants."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kafka.future import Future
from redis import Redis

from gateway import admission, submissions
from gateway import door as doors
from gateway.admission import Admitted, Ask, Verdict
from gateway.desk import Desk
from gateway.door import Door, Here
from gateway.submissions import Turnstile, Wanted
from seckill.breaker import Permit
from seckill.problems import Problem
from seckill.serving import THREADS
from seckill.streams.slots import NoLease, NotNow
from seckill.topics import PURCHASE_REQUESTS
from tests.services import together, until

pytestmark = pytest.mark.usefixtures("redis")

FOREVER = 10**15
OPENED_MS = int(time.time() * 1000) - 60_000


@dataclass(slots=True)
class Producer:
    """Acknowledges at once, unless it is told to stall or to fail."""

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
    """So that a request which Redis does not know has never been here."""
    redis.set(admission.SINCE_KEY, OPENED_MS - 1)


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Producer]:
    producer = Producer()
    monkeypatch.setattr(submissions, "writer", lambda: producer)
    yield producer


def wanted(request_id: UUID | None = None, **different: Any) -> Wanted:
    request_id = request_id or uuid4()
    ask = Ask(
        request_id, "0" * 16, f"u-{request_id}", f"{request_id.hex}", OPENED_MS, FOREVER, ticket_number=request_id.hex
    )
    return Wanted(ask._replace(ticket_expires_at_ms=FOREVER, **different), 1, "phone", 1, "00-trace")


class Gate:
    """A door with a turnstile behind it; what somebody wants has been read, and he is told the bare verdict."""

    def __init__(self) -> None:
        self.turnstile: Turnstile[Wanted, Admitted] = Turnstile(lambda each: each, lambda _, admitted: admitted)
        self.door = Door(Here(cast(Desk, SimpleNamespace(turnstile=self.turnstile))))
        self.breaker = self.turnstile.breaker

    def pass_through(self, each: Wanted) -> Admitted:
        return self.door.pass_through(each)  # type: ignore[arg-type, return-value]  # as the two above have it


def passing(gate: Gate, each: Wanted) -> Callable[[], Admitted]:
    return lambda: gate.pass_through(each)


def test_everybody_is_told_his_own_place(producer: Producer) -> None:
    gate = Gate()
    crowd = [wanted() for _ in range(40)]
    answers = together([passing(gate, each) for each in crowd])
    for each, answer in zip(crowd, answers, strict=True):
        assert isinstance(answer, Admitted) and answer.place is not None
        record = producer.sent[answer.place.offset]
        assert record["key"] == each.ask.user_id.encode()
        assert str(each.ask.request_id).encode() in record["value"]
        assert ("traceparent", b"00-trace") in record["headers"]


def test_equal_calls_at_once_are_one_record_and_a_later_one_none(producer: Producer) -> None:
    gate, request_id = Gate(), uuid4()
    answers = together([passing(gate, wanted(request_id)) for _ in range(20)])
    answers.append(gate.pass_through(wanted(request_id)))
    assert len(producer.sent) == 1
    assert {answer.place for answer in answers if isinstance(answer, Admitted)} == {(PURCHASE_REQUESTS.name, 0, 0)}
    assert len(answers) == 21 and not any(isinstance(answer, BaseException) for answer in answers)


def test_without_joining_equal_calls_would_be_many_records(producer: Producer) -> None:
    """The negative control: other requests, each a record."""
    gate = Gate()
    together([passing(gate, wanted()) for _ in range(20)])
    assert len(producer.sent) == 20


def test_who_is_refused_is_not_sent(producer: Producer) -> None:
    assert Gate().pass_through(wanted(full="sold_out")).verdict is Verdict.SOLD_OUT
    assert producer.sent == []


def test_while_the_broker_stalls_three_quarters_of_the_threads_wait_and_the_others_go_away_at_once(
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
    assert sum(isinstance(answer, Admitted) for answer in answers) == room


def test_an_unknown_outcome_is_never_called_a_failure_and_the_retry_is_the_same_event(producer: Producer) -> None:
    producer.fault = KafkaTimeoutError("nobody answers")
    gate, again = Gate(), wanted()
    with pytest.raises(Problem) as told:
        gate.pass_through(again)
    assert (told.value.status, told.value.kind, told.value.retry_after_s) == (503, "queue-unknown", 1)
    producer.fault = None
    assert gate.pass_through(again).verdict is Verdict.KNOWN
    assert len(producer.sent) == 1


def test_those_who_come_back_while_the_breaker_is_open_do_not_keep_it_open(producer: Producer) -> None:
    producer.fault = KafkaConnectionError("gone")
    gate, known = Gate(), wanted()
    with pytest.raises(Problem):
        gate.pass_through(known)
    gate.breaker.failed(-1000.0)  # its rest is long over
    back = known._replace(ask=known.ask._replace(full=Verdict.NO_QUEUE.value))
    with pytest.raises(Problem) as told:
        gate.pass_through(back)
    assert told.value.kind == "queue-unknown"
    assert gate.breaker.may_try(0.0), "somebody has to try"


def test_a_failure_opens_the_breaker_and_an_acknowledgement_closes_it(producer: Producer) -> None:
    producer.fault = KafkaConnectionError("gone")
    gate = Gate()
    with pytest.raises(Problem):
        gate.pass_through(wanted())
    assert not gate.breaker.may_try(0.0)
    producer.fault = None
    gate.pass_through(wanted())
    assert gate.breaker.may_try(0.0)


@pytest.mark.parametrize("junk", [{"ticket": "ticket_missing"}, {"opens_at_ms": FOREVER}, {"shut": "paused"}])
def test_calls_that_are_refused_anyway_do_not_use_up_the_breakers_probe(
    producer: Producer, junk: dict[str, Any]
) -> None:
    gate = Gate()
    gate.breaker.failed(-1000.0)  # half-open: one may try
    for _ in range(20):
        assert gate.turnstile.permit("somebody") is Permit.PROBE
        probe = wanted(**junk)._replace(give_back=lambda: gate.turnstile.give_back("somebody"))
        assert gate.pass_through(probe).verdict.value in ("ticket_missing", "not_open_yet", "paused")
    assert gate.turnstile.permit("honest") is Permit.PROBE
    assert gate.turnstile.permit("other") is Permit.NO, "the control: a probe that is under way is one"
    gate.pass_through(wanted())
    assert gate.turnstile.permit("other") is Permit.YES


def test_while_the_breaker_is_open_a_known_request_without_a_place_is_not_sent(producer: Producer) -> None:
    producer.fault = KafkaConnectionError("gone")
    gate, again = Gate(), wanted()
    with pytest.raises(Problem):
        gate.pass_through(again)
    producer.fault = None
    with pytest.raises(Problem, match="not known"):
        gate.pass_through(again._replace(ask=again.ask._replace(full=Verdict.NO_QUEUE.value)))
    assert producer.sent == []


def test_a_lease_that_has_run_out_is_told_as_a_queue_that_takes_nothing(producer: Producer) -> None:
    """The database or broker stalls: nothing is being moved, and nobody is told so."""
    producer.fault = NoLease("the lease has ended")
    gate, asked = Gate(), wanted()
    for kind in ("queue-unavailable", "queue-unknown"):  # of one that was here before, something may be under way
        with pytest.raises(Problem) as refused:
            gate.pass_through(asked)
        assert (refused.value.status, refused.value.kind) == (503, kind)


def test_a_buyer_whose_slot_is_being_moved_is_asked_back_and_nobody_else_is_kept_out(producer: Producer) -> None:
    gate = Gate()
    producer.fault = NotNow("slot 7 is being moved")
    with pytest.raises(Problem) as refused:
        gate.pass_through(wanted())
    assert (refused.value.status, refused.value.kind) == (503, "queue-moving")
    producer.fault = None
    assert gate.pass_through(wanted()).place is not None


def test_a_fault_of_our_own_is_told_and_does_not_stay_in_the_way_of_the_retry(producer: Producer) -> None:
    gate, mine = Gate(), wanted()
    producer.fault = ValueError("no such partition")
    with pytest.raises(ValueError, match="no such partition"):
        gate.pass_through(mine)
    producer.fault = None
    assert gate.pass_through(mine).place is not None
