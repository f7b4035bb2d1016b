"""One address or one user cannot take a whole sale, or the memory of admission, without paying."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from redis import Redis

from gateway import admission, outcome_cache
from gateway.admission import AdmissionRequest, Verdict, request_key
from gateway.admission_script import LIFE_KEY, SINCE_KEY
from gateway.outcomes import PurchaseOutcome
from seckill.web.purchase_states import PurchaseState
from tests.gateway_loop import admit_requests

pytestmark = pytest.mark.usefixtures("redis")

FOREVER = 10**15
HOUR_MS = 3_600_000
LIMIT = 5


def ask(**different: Any) -> AdmissionRequest:
    request_id = uuid4()
    good = AdmissionRequest(
        request_id, "0123456789abcdef", f"user-{request_id}", "10.9.9.9", 0, FOREVER, ticket_number=request_id.hex,
        ticket_expires_at_ms=FOREVER, sale_id=1, unpaid_max=LIMIT,
    )  # fmt: skip
    return good._replace(**different)


def verdict(asked: AdmissionRequest) -> Verdict:
    [admitted] = admit_requests([asked])
    return admitted.verdict


def look_again(redis: Redis) -> None:
    """As if a second had passed since the last correction of the sum."""
    redis.hset("admission:unpaid:1:10.9.9.9", "looked", 0)


def show(request_id: UUID, state: str) -> None:
    outcome_cache.store_outcomes(
        [PurchaseOutcome(request_id, "ann", 1, PurchaseState(state), None, None, False)], notify=False
    )


def test_unpaid_units_are_limited_per_address_and_other_addresses_are_admitted() -> None:
    verdicts = [answer.verdict for answer in admit_requests([ask() for _ in range(LIMIT + 3)])]
    assert verdicts == [Verdict.ADMITTED] * LIMIT + [Verdict.TOO_MANY_UNPAID] * 3
    assert verdict(ask(address="10.9.9.8")) is Verdict.ADMITTED
    assert verdict(ask(sale_id=2)) is Verdict.ADMITTED
    assert verdict(ask(unpaid_max=0)) is Verdict.ADMITTED, "no limit without a known client address"


def test_units_count_not_requests_and_a_first_request_may_be_larger_than_the_limit() -> None:
    assert verdict(ask(quantity=LIMIT - 1)) is Verdict.ADMITTED
    assert verdict(ask(quantity=2)) is Verdict.TOO_MANY_UNPAID
    assert verdict(ask(quantity=1)) is Verdict.ADMITTED
    assert verdict(ask(address="10.9.9.8", quantity=LIMIT + 1)) is Verdict.ADMITTED
    assert verdict(ask(address="10.9.9.8")) is Verdict.TOO_MANY_UNPAID


@pytest.mark.parametrize(
    ("state", "leaves_room"),
    [("RESERVED", False), ("AWAITING_PAYMENT", False), ("PAID", True), ("EXPIRED", True), ("SOLD_OUT", True)],
)
def test_paid_returned_and_refused_units_no_longer_count(state: str, leaves_room: bool, redis: Redis) -> None:
    asks = [ask() for _ in range(LIMIT)]
    admit_requests(asks)
    assert verdict(ask()) is Verdict.TOO_MANY_UNPAID
    show(asks[0].request_id, state)
    assert verdict(ask()) is Verdict.TOO_MANY_UNPAID, "their states are read once a second"
    look_again(redis)
    assert (verdict(ask()) is Verdict.ADMITTED) is leaves_room
    assert verdict(ask()) is Verdict.TOO_MANY_UNPAID


def test_a_request_without_an_outcome_stops_counting_after_its_deadline(redis: Redis) -> None:
    asks = [ask() for _ in range(LIMIT)]
    admit_requests(asks)
    redis.hset("admission:unpaid:1:10.9.9.9", str(asks[0].request_id), "1:1")
    look_again(redis)
    assert verdict(ask()) is Verdict.ADMITTED


def test_the_same_request_again_is_not_counted_again() -> None:
    first = ask()
    assert [answer.verdict for answer in admit_requests([first] * 10)] == [Verdict.ADMITTED] + [Verdict.KNOWN] * 9
    assert [answer.verdict for answer in admit_requests([ask() for _ in range(LIMIT)])].count(
        Verdict.ADMITTED
    ) == LIMIT - 1


def test_requests_per_user_and_sale_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "TRIES_MAX", 3)
    mine = [ask(user_id="ann", unpaid_max=0) for _ in range(4)]
    assert [answer.verdict for answer in admit_requests(mine)] == [Verdict.ADMITTED] * 3 + [Verdict.TOO_MANY_TRIES]
    assert verdict(mine[0]) is Verdict.KNOWN
    assert verdict(ask(user_id="ann", sale_id=2, unpaid_max=0)) is Verdict.ADMITTED
    assert verdict(ask(user_id="bob", unpaid_max=0)) is Verdict.ADMITTED


def test_requests_per_address_and_sale_are_limited(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "ADDRESS_TRIES_MAX", 2 * LIMIT)
    for _ in range(2):
        asks = [ask() for _ in range(LIMIT)]
        assert {answer.verdict for answer in admit_requests(asks)} == {Verdict.ADMITTED}
        for each in asks:
            show(each.request_id, "SOLD_OUT")
        look_again(redis)
    assert verdict(ask()) is Verdict.TOO_MANY_TRIES
    assert verdict(ask(address="10.9.9.8")) is Verdict.ADMITTED


def test_a_refused_request_does_not_count_against_the_limits(redis: Redis) -> None:
    assert verdict(ask(user_id="ann", full="sold_out")) is Verdict.SOLD_OUT
    assert redis.keys("admission:tries:*") == redis.keys("admission:unpaid:*") == []


def test_everything_about_a_request_is_forgotten_an_hour_after_its_sale(redis: Redis) -> None:
    seconds, micros = redis.time()
    now_ms = seconds * 1000 + micros // 1000
    soon = ask(user_id="ann", closes_at_ms=now_ms + HOUR_MS)
    later = ask(user_id="bob", address="10.1.1.1", sale_id=2)
    admit_requests([soon, later])
    for name in (request_key(soon.request_id), "admission:tries:1:ann", "admission:unpaid:1:10.9.9.9"):
        assert HOUR_MS < redis.pttl(name) <= 2 * HOUR_MS, name
    for name in (request_key(later.request_id), "admission:tries:2:bob", "admission:unpaid:2:10.1.1.1"):
        assert 23 * HOUR_MS < redis.pttl(name) <= 24 * HOUR_MS, name
    of_redis_itself = {SINCE_KEY, LIFE_KEY}
    assert {key for key in redis.keys("admission:*") if redis.ttl(key) < 0} == of_redis_itself


def test_one_address_leaves_units_of_a_fresh_sale_to_others(redis: Redis) -> None:
    """700 accounts behind one address want 500 units."""
    units, limit = 500, 125
    asks = [ask(unpaid_max=limit) for _ in range(700)]
    admitted = [answer.verdict for answer in admit_requests(asks)].count(Verdict.ADMITTED)
    assert admitted == limit < units
    assert json.loads(str(redis.hget("admission:unpaid:1:10.9.9.9", "sum"))) == limit
