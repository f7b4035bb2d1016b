"""The active attempt of a buyer, on a real Redis: finding it costs the same for any number of attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from redis import Redis
from redis.exceptions import RedisError

from gateway import outcome_cache
from gateway.admission import AdmissionRequest
from gateway.identity import derive_request_id
from gateway.outcome_cache import CachedPurchase
from gateway.outcomes import PurchaseOutcome
from gateway.pages import attempts
from seckill.web.purchase_states import PurchaseState
from tests.gateway_loop import admit_requests, forget_connections, make_gateway

FOREVER = 10**15


@pytest.fixture(autouse=True)
def gateway(redis: Redis) -> None:
    """Pages read statuses on its event loop."""
    forget_connections()
    make_gateway()


def tried(number: int, state: str | None = None, *, may_buy_again: bool = False) -> UUID:
    asked = derive_request_id(settings.SECRET_KEY, "ann", 1, attempts.attempt_key(number))
    ask = AdmissionRequest(
        asked, "0" * 16, f"u{number}", "1.2.3.4", 2, FOREVER, "", "", str(number), FOREVER, sale_id=1
    )
    assert admit_requests([ask])[0].verdict == "admitted"
    if state is not None:
        outcome_cache.store_outcomes(
            [PurchaseOutcome(asked, "ann", 1, PurchaseState(state), None, None, may_buy_again)], notify=False
        )
    return asked


def test_the_last_attempt_is_found_and_the_next_number_follows() -> None:
    assert attempts.find_attempts("ann", 1) == (None, 1)
    tried(1, "SOLD_OUT")
    tried(2, "EXPIRED", may_buy_again=True)
    found = attempts.find_attempts("ann", 1)
    assert found.next_number == 3 and not found.has_active
    assert found.last is not None and found.last.outcome is not None and found.last.outcome.state == "EXPIRED"
    third = tried(3, "AWAITING_PAYMENT")
    found = attempts.find_attempts("ann", 1)
    assert (found.next_number, found.has_active) == (4, True)
    assert found.last is not None and found.last.request_id == third


def test_forty_refused_attempts_cost_one_call_to_redis_and_no_query(
    monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    for number in range(1, 41):
        tried(number, "SOLD_OUT")
    asked: list[int] = []
    fetch = outcome_cache.fetch_purchases

    def counted(request_ids: Sequence[UUID]) -> list[CachedPurchase]:
        asked.append(len(request_ids))
        return fetch(request_ids)

    monkeypatch.setattr(outcome_cache, "fetch_purchases", counted)
    with django_assert_num_queries(0):
        assert attempts.find_attempts("ann", 1).next_number == 41
    assert len(asked) == 1


def test_without_redis_the_first_attempt_is_offered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried(1, "SOLD_OUT")

    def away(_: object) -> None:
        raise RedisError("away")

    monkeypatch.setattr(outcome_cache, "fetch_purchases", away)
    assert attempts.find_attempts("ann", 1) == (None, 1)
