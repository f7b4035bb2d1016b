"""The read flood: what a crowd looks at again and again is answered without a question to the database."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from redis import Redis

from gateway import outcomes, places, sales, shown
from gateway.admission import SINCE_KEY, Ask, Verdict, admit
from gateway.outcomes import project
from gateway.places import Place, Standing
from gateway.shown import Known
from gateway.watching import Watch
from inventory.events import SALES_KEY, Decision, PurchaseDecided, SaleView, UnitsReleased, view_key
from orders.events import OrderChanged, OrderEvent
from seckill import tokens
from seckill.problems import Problem
from tests.services import together, until

TOPIC = "purchase.requests"
FOREVER = 10**15


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Nothing is known of the queue but what a test says."""
    watch = Watch()
    monkeypatch.setattr(watch, "_is_started", True)
    monkeypatch.setattr("gateway.following.watch", lambda: watch)
    return watch


@pytest.fixture
def client(redis: Redis, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A browser of Ann's, and a sale to look at."""
    monkeypatch.setattr(sales, "_snapshot", sales._Snapshot())
    show(redis, view())
    return Client(HTTP_AUTHORIZATION=f"Bearer {tokens.issue('ann')}")


def view(**different: Any) -> SaleView:
    good = SaleView(7, "Gong", "phone", 100, 1, 5, 5, 0, 0, 3, "open", 0, FOREVER)
    return SaleView(**({name: getattr(good, name) for name in SaleView.__slots__} | different))


def show(redis: Redis, shown_view: SaleView) -> None:
    redis.sadd(SALES_KEY, shown_view.id)
    redis.set(view_key(shown_view.id), shown_view.encode())


def decided(request_id: UUID, decision: Decision = Decision.RESERVED) -> PurchaseDecided:
    return PurchaseDecided(request_id, "ann", 7, "phone", 1, 100, decision, 4, 1)


def order(request_id: UUID, event: OrderEvent) -> OrderChanged:
    return OrderChanged(event, uuid4(), request_id, "ann", 7, "phone", 1, 100, 1, 2)


def released(request_id: UUID) -> UnitsReleased:
    return UnitsReleased(request_id, "ann", 7, "phone", 1, "expired", 5)


def queue_stands_at(watch: Watch, offset: int) -> None:
    """Inventory has decided everything before this offset."""
    watch.backlog.observe(time.monotonic(), {(TOPIC, 0): 100}, {(TOPIC, 0): offset})


def address(request_id: UUID) -> str:
    standing = Standing("ann", Place(TOPIC, 0, 50), 99)
    return f"/api/v1/purchases/{request_id}?place={places.sealed(request_id, standing)}"


@contextmanager
def queries(expected: int) -> Iterator[None]:
    with CaptureQueriesContext(connection) as captured:
        yield
    assert len(captured) == expected, [query["sql"] for query in captured]


def test_the_countdown_costs_no_query_and_hardly_a_body(client: Client) -> None:
    with queries(0):
        first = client.get("/api/v1/sales/7")
        again = client.get("/api/v1/sales/7", HTTP_IF_NONE_MATCH=first["ETag"])
        assert client.get("/api/v1/sales").status_code == 200
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    assert first.json()["availability"] == "available"
    assert again["X-Now-Ms"], "the time goes on"


def test_a_sale_that_changes_has_another_tag(client: Client, redis: Redis) -> None:
    first = client.get("/api/v1/sales/7")
    show(redis, view(stock_version=4, available=0, reserved=5))
    until(lambda: client.get("/api/v1/sales/7").json()["stock_version"] == 4, "the snapshot to be taken again")
    changed = client.get("/api/v1/sales/7", HTTP_IF_NONE_MATCH=first["ETag"])
    assert (changed.status_code, changed.json()["availability"]) == (200, "all_held")


def test_a_redis_put_back_to_an_older_state_does_not_put_the_mark_back(client: Client, redis: Redis) -> None:
    show(redis, view(stock_version=9, available=0, sold=5))
    until(lambda: client.get("/api/v1/sales/7").json()["availability"] == "sold_out", "the mark")
    show(redis, view(stock_version=3))
    taken = sales._snapshot.taken_at
    until(lambda: sales.views() and sales._snapshot.taken_at > taken, "the next snapshot")
    assert client.get("/api/v1/sales/7").json()["availability"] == "sold_out"


def test_a_crowd_after_a_quiet_hour_waits_for_the_one_who_looks(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them, at once, find a snapshot that is too old; none is turned away, and only one asks Redis."""
    looks: list[float] = []
    refresh = sales._refresh

    def look() -> None:
        looks.append(time.monotonic())
        refresh()

    monkeypatch.setattr(sales, "_refresh", look)
    assert sales.views()
    sales._snapshot.taken_at = sales._snapshot.tried_at = time.monotonic() - 3600
    found = together([lambda: sales.find(7).name for _ in range(40)])
    assert found == ["Gong"] * 40
    assert len(looks) == 2, "the first ever, and one for the crowd"


def test_a_sale_made_a_moment_ago_is_found_by_all_who_come_at_once(
    client: Client, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What there was before it does not have it: who asks for it waits for the one who looks, and for nobody else."""
    refresh, looking, others = sales._refresh, threading.Event(), threading.Event()

    def look() -> None:
        looking.set()
        others.wait(10)  # the first one looks, and the others come meanwhile
        refresh()

    assert sales.views()
    monkeypatch.setattr(sales, "_refresh", look)
    sales._snapshot.taken_at = sales._snapshot.tried_at = time.monotonic() - 2
    show(redis, view(id=8, name="Second gong"))

    def ask(number: int) -> str:
        if number == 0:
            return sales.find(8).name
        assert looking.wait(30), "the first one to look"
        if number == 1:
            assert sales.find(7).name == "Gong", "a sale that is known waits for nobody"
            others.set()
        return sales.find(8).name

    assert together([lambda number=number: ask(number) for number in range(20)]) == ["Second gong"] * 20  # type: ignore[misc]


def test_who_was_shown_a_sale_by_one_process_may_buy_in_the_other(client: Client, redis: Redis) -> None:
    """The clerk looks by himself: what he does not know is not taken for missing because he looked a moment ago."""
    assert sales.views()
    sales._snapshot.taken_at = sales._snapshot.tried_at = time.monotonic() - 2 * sales.JUST_S
    show(redis, view(id=8, name="Second gong"))
    assert sales.find(8, missing_for_s=sales.JUST_S).name == "Second gong"


def test_while_redis_is_away_nobody_queues_up_to_find_that_out_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    monkeypatch.setattr(sales, "_refresh", lambda: looks.append(time.monotonic()))
    answers = together([lambda: sales.find(7) for _ in range(40)])
    assert {answer.kind for answer in answers if isinstance(answer, Problem)} == {"sales-unavailable"}
    assert len(answers) == 40 and len(looks) == 1


def test_an_outcome_that_was_projected_is_read_without_a_query(client: Client) -> None:
    request_id = uuid4()
    shown.keep(project([decided(request_id)]), tell=True)
    with queries(0):
        answer = client.get(address(request_id))
    assert answer.json()["state"] == "RESERVED"
    assert 300 < int(answer["X-Poll-After-Ms"]) < 700


def admitted(redis: Redis, *, remembered_before_opening: bool = True) -> UUID:
    """A request that Redis remembers, of a sale that opened a minute ago."""
    opened_at_ms = int(time.time() * 1000) - 60_000
    redis.set(SINCE_KEY, opened_at_ms - 1 if remembered_before_opening else opened_at_ms + 1)
    number = uuid4()
    ask = Ask(
        number,
        "0" * 16,
        "ann",
        "1.2.3.4",
        opened_at_ms,
        FOREVER,
        ticket_number=str(number),
        ticket_expires_at_ms=FOREVER,
    )
    [said] = admit([ask])
    assert said.verdict is Verdict.ADMITTED
    return number


def test_a_request_before_inventorys_offset_is_queued_without_a_query(
    client: Client, watch: Watch, redis: Redis
) -> None:
    queue_stands_at(watch, 20)
    with queries(0):
        seen = client.get(address(admitted(redis))).json()
    assert (seen["state"], seen["position"], seen["deadline_ms"]) == ("QUEUED", 30, 99)


def test_only_what_may_have_been_decided_is_asked_of_the_table(client: Client, watch: Watch, redis: Redis) -> None:
    """The negative controls: nothing known of the queue, passed by inventory, or perhaps not the first."""
    with queries(1):
        assert client.get(address(admitted(redis))).json()["state"] == "QUEUED"
    queue_stands_at(watch, 51)
    with queries(1):
        assert client.get(address(admitted(redis))).json()["state"] == "QUEUED"
    queue_stands_at(watch, 20)
    with queries(1):
        assert client.get(address(admitted(redis, remembered_before_opening=False))).json()["state"] == "QUEUED"


@pytest.mark.parametrize("lose", ["flushed", "away"])
def test_who_was_shown_a_decision_is_not_put_back_in_the_queue_when_redis_loses_it(
    client: Client, watch: Watch, redis: Redis, monkeypatch: pytest.MonkeyPatch, lose: str
) -> None:
    """How far inventory has come is seen late: by that, he still stands in the queue."""
    request_id = admitted(redis)
    queue_stands_at(watch, 20)
    shown.keep(project([decided(request_id)]), tell=True)
    assert client.get(address(request_id)).json()["state"] == "RESERVED"
    if lose == "flushed":
        redis.flushall()
    else:
        monkeypatch.setattr(shown, "look", away)
    assert client.get(address(request_id)).json()["state"] == "RESERVED"


def away(request_id: UUID) -> Known:
    raise TimeoutError


def test_what_redis_has_lost_is_asked_of_the_table_once(client: Client, redis: Redis) -> None:
    request_id = uuid4()
    project([decided(request_id)])
    with queries(1):
        assert client.get(address(request_id)).json()["state"] == "RESERVED"
    with queries(0):
        assert client.get(address(request_id)).json()["state"] == "RESERVED"


def test_a_request_is_found_without_its_signed_place_by_its_owner_only(client: Client) -> None:
    request_id = uuid4()
    admit([Ask(request_id, "0" * 16, "ann", "1.2.3.4", 0, FOREVER, ticket_number="t", ticket_expires_at_ms=FOREVER)])
    bare = f"/api/v1/purchases/{request_id}"
    assert client.get(bare).json()["state"] == "QUEUED"
    bob = {"HTTP_AUTHORIZATION": f"Bearer {tokens.issue('bob')}"}
    assert client.get(bare, **bob).status_code == 404  # type: ignore[arg-type]  # headers
    assert client.get(address(request_id), **bob).status_code == 404  # type: ignore[arg-type]
    assert client.get(f"/api/v1/purchases/{uuid4()}").status_code == 404


# ── the projection and its cache ─────────────────────────────────────────────────────────────────


def test_a_late_event_takes_nothing_back_neither_in_the_table_nor_in_redis(client: Client) -> None:
    request_id = uuid4()
    shown.keep(project([order(request_id, OrderEvent.PAID)]), tell=True)
    assert project([decided(request_id), order(request_id, OrderEvent.PLACED)]) == []
    stale = outcomes.Shown(request_id, "ann", 7, "RESERVED", None, None, False)
    shown.keep([stale], tell=True)
    assert client.get(address(request_id)).json()["state"] == "PAID"


def test_several_events_of_one_request_in_one_batch_are_its_last_state(client: Client) -> None:
    request_id = uuid4()
    events: list[outcomes.Event] = [
        decided(request_id),
        order(request_id, OrderEvent.PLACED),
        order(request_id, OrderEvent.CANCELLED),
    ]
    events.append(released(request_id))
    [row] = project(events)
    assert (row.state, row.may_buy_again, row.is_final) == ("CANCELLED", True, True)
    assert project(events) == [], "a batch that is delivered again changes nothing"


def test_units_that_are_back_before_the_end_is_known_are_not_forgotten(client: Client) -> None:
    """Two topics have no order between them."""
    request_id = uuid4()
    project([decided(request_id)])
    project([released(request_id)])
    [row] = project([order(request_id, OrderEvent.EXPIRED)])
    assert (row.state, row.may_buy_again) == ("EXPIRED", True)


def test_news_are_told_once_for_each_step_and_not_for_what_was_known(client: Client, redis: Redis) -> None:
    request_id = uuid4()
    with redis.pubsub() as news:
        news.subscribe(shown.NEWS)
        until(lambda: news.get_message(timeout=1), "the subscription")
        rows = project([decided(request_id)])
        shown.keep(rows, tell=True)
        shown.keep(rows, tell=True)
        shown.keep(project([order(request_id, OrderEvent.PLACED)]), tell=True)
        told = [news.get_message(timeout=5) for _ in range(2)]
        assert news.get_message(timeout=0.1) is None
    states = [shown.decode(request_id, message["data"].partition("|")[2]).state for message in told if message]
    assert states == ["RESERVED", "AWAITING_PAYMENT"]


def test_many_readers_at_once_each_read_their_own(client: Client) -> None:
    requests = [uuid4() for _ in range(40)]
    shown.keep(project([decided(request_id) for request_id in requests]), tell=True)
    seen: dict[UUID, str] = {}

    def read(request_id: UUID) -> None:
        known = shown.look(request_id).shown
        assert known is not None
        seen[request_id] = str(known.request_id)

    readers = [threading.Thread(target=read, args=(request_id,)) for request_id in requests]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(30)
    assert seen == {request_id: str(request_id) for request_id in requests}


def test_bad_json_of_a_stranger_is_a_problem(client: Client) -> None:
    answer = client.post("/api/v1/sessions", "[" * 4000, content_type="application/json")
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
    assert json.loads(answer.content)["type"] == "/problems/bad-json"
