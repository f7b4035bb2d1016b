"""What buyers see over HTTP when Redis has lost its data, was restored from old data, or is three servers."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError, connection
from redis import Redis

from gateway import admission, admission_fallback
from gateway.admission_script import SINCE_KEY
from gateway.backlog_monitor import BacklogMonitor
from inventory import sale_commands, sale_view
from inventory.events import view_key
from inventory.models import Stock
from tests.concurrency.gateway_memory_cast import (
    bought,
    buy,
    buyer,
    decide,
    look_again,
    make_stock,
    stands_at,
    started_gateway,
)
from tests.gateway_loop import queries


@pytest.fixture(autouse=True)
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[BacklogMonitor]:
    yield from started_gateway(monkeypatch)


@pytest.fixture
def stock() -> Stock:
    return make_stock()


REFUSALS = ["closed", "paused", "sold out", "no ticket", "too fast"]


def make_refuse(stock: Stock, why: str, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """A ticket for the purchase."""
    if why in ("closed", "paused"):
        sale_commands.set_sale_state(stock.sale_id, why)
    elif why == "sold out":
        Stock.objects.filter(id=stock.id).update(available=0, sold=1000, version=99)
    elif why == "too fast":
        monkeypatch.setattr(admission, "USER_BURST", 0.5)
    sale_view.publish_all_views()
    sale_view.publish_view(stock.sale_id)
    look_again()
    return "" if why == "no ticket" else None


@pytest.mark.parametrize("why", REFUSALS)
@pytest.mark.parametrize("lost", ["flushed", "a day later"])
def test_a_known_key_gets_its_answer_before_any_refusal_when_redis_has_forgotten_it(
    stock: Stock, redis: Redis, gateway: BacklogMonitor, monkeypatch: pytest.MonkeyPatch, why: str, lost: str
) -> None:
    mine = bought(stock)
    decide(UUID(mine["request_id"]), stock, mine["offset"])
    if lost == "flushed":
        redis.flushall()
        sale_view.publish_all_views()
    else:  # the key has expired; Redis has remembered since before the opening
        redis.delete(admission.request_key(UUID(mine["request_id"])))
        redis.set(SINCE_KEY, 1)
        monkeypatch.setattr(admission, "MEMORY_S", 30)
    stands_at(gateway, 100)
    ticket = make_refuse(stock, why, monkeypatch)
    again = buy(buyer(), stock, ticket=ticket)
    assert again.status_code == 202, again.content
    assert (again.json()["request_id"], again.json()["offset"]) == (mine["request_id"], mine["offset"])
    assert buyer().get(again.json()["status_url"]).json()["state"] == "RESERVED"
    stranger = buy(buyer("bob"), stock, key="two", ticket=ticket)
    assert stranger.status_code in (403, 409, 410, 429, 503), "the control: other requests are refused"


def test_a_forgotten_key_is_refused_with_another_body_and_known_with_its_own(
    stock: Stock, redis: Redis, gateway: BacklogMonitor
) -> None:
    mine = bought(stock)
    decide(UUID(mine["request_id"]), stock, mine["offset"])
    redis.flushall()
    sale_view.publish_all_views()
    assert buy(buyer(), stock, quantity=2).json()["title"] == "key reused"
    ticket = buyer().post(f"/api/v1/sales/{stock.sale_id}/ticket").json()["ticket"]
    with queries(0):  # the request was written back to Redis
        assert buy(buyer(), stock, ticket=ticket).json()["request_id"] == mine["request_id"]


def test_while_a_forgotten_request_may_be_in_the_queue_no_final_refusal_is_given(
    stock: Stock, redis: Redis, gateway: BacklogMonitor
) -> None:
    bought(stock)
    redis.flushall()
    sale_commands.set_sale_state(stock.sale_id, "closed")
    sale_view.publish_all_views()
    look_again()
    stands_at(gateway, 99)
    answer = buy(buyer(), stock)
    assert (answer.status_code, answer.json()["title"], answer["Retry-After"]) == (503, "queue unknown", "1")
    stands_at(gateway, 100)
    assert buy(buyer(), stock).status_code == 410


def test_while_the_table_cannot_be_read_no_final_refusal_is_given(
    stock: Stock, redis: Redis, gateway: BacklogMonitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis.flushall()
    sale_commands.set_sale_state(stock.sale_id, "closed")
    sale_view.publish_all_views()
    look_again()
    monkeypatch.setattr(admission_fallback, "_find_projected", lambda requests: None)
    assert buy(buyer(), stock).status_code == 503


def test_an_unavailable_database_does_not_crash_admission(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise OperationalError("away")

    with monkeypatch.context() as patch:
        patch.setattr(connection, "cursor", away)
        assert admission_fallback._find_projected([uuid4()]) is None


def test_a_key_is_known_after_the_view_of_its_sale_has_expired(
    stock: Stock, redis: Redis, gateway: BacklogMonitor
) -> None:
    mine = bought(stock)
    decide(UUID(mine["request_id"]), stock, mine["offset"])
    sale_commands.set_sale_state(stock.sale_id, "closed")
    sale_view.publish_all_views()
    redis.delete(view_key(stock.sale_id), admission.request_key(UUID(mine["request_id"])))
    look_again()
    stands_at(gateway, 100)
    assert buy(buyer(), stock, ticket="none").json()["request_id"] == mine["request_id"]
    assert buy(buyer(), stock, key="two", ticket="none").status_code == 404


# ── sales ────────────────────────────────────────────────────────────────────────────────────────
