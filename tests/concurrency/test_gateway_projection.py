"""How events become the state that a buyer sees."""

from __future__ import annotations

import asyncio
import json
from uuid import uuid4

import pytest
from redis import Redis

from gateway import outcome_cache, outcomes
from gateway.backlog_monitor import BacklogMonitor
from gateway.outcome_cache import CachedPurchase
from gateway.outcomes import project_events
from orders.events import OrderEvent
from seckill.web.purchase_states import PurchaseState
from tests.concurrency.gateway_reading_cast import address, decided, make_client, make_monitor, order, released
from tests.gateway_loop import ApiClient, on_loop
from tests.services import until


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> BacklogMonitor:
    return make_monitor(monkeypatch)


@pytest.fixture
def client(redis: Redis, watch: BacklogMonitor, monkeypatch: pytest.MonkeyPatch) -> ApiClient:
    return make_client(redis, monkeypatch)


def test_a_late_event_changes_nothing_in_the_table_or_in_redis(client: ApiClient) -> None:
    request_id = uuid4()
    outcome_cache.store_outcomes(project_events([order(request_id, OrderEvent.PAID)]), notify=True)
    assert project_events([decided(request_id), order(request_id, OrderEvent.PLACED)]) == []
    stale = outcomes.PurchaseOutcome(request_id, "ann", 7, PurchaseState.RESERVED, None, None, False)
    outcome_cache.store_outcomes([stale], notify=True)
    assert client.get(address(request_id)).json()["state"] == "PAID"


def test_several_events_of_one_request_in_a_batch_give_its_last_state(client: ApiClient) -> None:
    request_id = uuid4()
    events: list[outcomes.Event] = [
        decided(request_id),
        order(request_id, OrderEvent.PLACED),
        order(request_id, OrderEvent.CANCELLED),
    ]
    events.append(released(request_id))
    [row] = project_events(events)
    assert (row.state, row.may_buy_again, row.is_final) == ("CANCELLED", True, True)
    assert project_events(events) == [], "a redelivered batch changes nothing"


def test_a_release_that_arrives_before_the_end_of_its_order_is_kept(client: ApiClient) -> None:
    """Two topics have no order between them."""
    request_id = uuid4()
    project_events([decided(request_id)])
    project_events([released(request_id)])
    [row] = project_events([order(request_id, OrderEvent.EXPIRED)])
    assert (row.state, row.may_buy_again) == ("EXPIRED", True)


def test_each_new_state_is_published_once_and_a_known_one_never(client: ApiClient, redis: Redis) -> None:
    request_id = uuid4()
    with redis.pubsub() as news:
        news.subscribe(outcome_cache.CHANNEL)
        until(lambda: news.get_message(timeout=1), "the subscription")
        rows = project_events([decided(request_id)])
        outcome_cache.store_outcomes(rows, notify=True)
        outcome_cache.store_outcomes(rows, notify=True)
        outcome_cache.store_outcomes(project_events([order(request_id, OrderEvent.PLACED)]), notify=True)
        told = [news.get_message(timeout=5) for _ in range(2)]
        assert news.get_message(timeout=0.1) is None
    states = [
        outcome_cache.decode_outcome(request_id, message["data"].partition("|")[2]).state for message in told if message
    ]
    assert states == ["RESERVED", "AWAITING_PAYMENT"]


def test_simultaneous_readers_each_get_their_own_outcome(client: ApiClient) -> None:
    requests = [uuid4() for _ in range(40)]
    outcome_cache.store_outcomes(project_events([decided(request_id) for request_id in requests]), notify=True)

    async def read() -> list[CachedPurchase]:
        return await asyncio.gather(*map(outcome_cache.fetch_purchase, requests))

    found = on_loop(read())
    seen = {each.outcome.request_id: str(each.outcome.request_id) for each in found if each.outcome is not None}
    assert seen == {request_id: str(request_id) for request_id in requests}


def test_malformed_json_is_answered_with_a_problem(client: ApiClient) -> None:
    answer = client.post("/api/v1/sessions", "[" * 4000, content_type="application/json")
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
    assert json.loads(answer.content)["type"] == "/problems/bad-json"
