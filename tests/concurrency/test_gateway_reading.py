"""What a crowd reads again and again is answered without a query."""

from __future__ import annotations

import threading
import time
from uuid import UUID, uuid4

import pytest
from redis import Redis
from redis.exceptions import RedisError

from gateway import outcome_cache, purchase_status, sales
from gateway.admission import AdmissionRequest, Verdict
from gateway.admission_script import SINCE_KEY
from gateway.backlog_monitor import BacklogMonitor
from gateway.outcome_cache import CachedPurchase
from gateway.outcomes import project_events
from seckill.web import tokens
from seckill.web.problems import Problem
from tests.concurrency.gateway_reading_cast import (
    FOREVER,
    address,
    decided,
    make_client,
    make_monitor,
    queue_stands_at,
    show,
    view,
)
from tests.gateway_loop import ApiClient, admit_requests, queries
from tests.services import together, until

NOW_MS = int(time.time() * 1000)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> BacklogMonitor:
    return make_monitor(monkeypatch)


@pytest.fixture
def client(redis: Redis, watch: BacklogMonitor, monkeypatch: pytest.MonkeyPatch) -> ApiClient:
    return make_client(redis, monkeypatch)


def test_the_countdown_costs_no_query_and_almost_no_body(client: ApiClient) -> None:
    with queries(0):
        first = client.get("/api/v1/sales/7")
        again = client.get("/api/v1/sales/7", HTTP_IF_NONE_MATCH=first["ETag"])
        assert client.get("/api/v1/sales").status_code == 200
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    assert first.json()["availability"] == "available"
    assert again["X-Now-Ms"], "the time moves on"


def test_a_changed_sale_has_another_etag(client: ApiClient, redis: Redis) -> None:
    first = client.get("/api/v1/sales/7")
    show(redis, view(stock_version=4, available=0, reserved=5))
    until(lambda: client.get("/api/v1/sales/7").json()["stock_version"] == 4, "the snapshot to be taken again")
    changed = client.get("/api/v1/sales/7", HTTP_IF_NONE_MATCH=first["ETag"])
    assert (changed.status_code, changed.json()["availability"]) == (200, "all_held")


def test_an_older_view_in_redis_does_not_undo_sold_out(client: ApiClient, redis: Redis) -> None:
    show(redis, view(stock_version=9, available=0, sold=5))
    until(lambda: client.get("/api/v1/sales/7").json()["availability"] == "sold_out", "the mark")
    show(redis, view(stock_version=3))
    taken = sales._snapshot.taken_at
    until(lambda: sales.current_views() and sales._snapshot.taken_at > taken, "the next snapshot")
    assert client.get("/api/v1/sales/7").json()["availability"] == "sold_out"


def test_after_a_quiet_hour_one_thread_refreshes_and_the_others_wait_for_it(
    client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All find the snapshot too old at once. None is refused, and only one calls Redis."""
    looks: list[float] = []
    refresh = sales._refresh

    def look() -> None:
        looks.append(time.monotonic())
        refresh()

    monkeypatch.setattr(sales, "_refresh", look)
    assert sales.current_views()
    sales._snapshot.taken_at = sales._snapshot.tried_at = time.monotonic() - 3600
    found = together([lambda: sales.find_sale(7).name for _ in range(40)])
    assert found == ["Gong"] * 40
    assert len(looks) == 2, "the first one, and one for the crowd"


def test_a_new_sale_is_found_by_simultaneous_callers(
    client: ApiClient, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The previous snapshot lacks the sale, so its readers wait for the refresh; readers of other sales do not."""
    refresh, looking, others = sales._refresh, threading.Event(), threading.Event()

    def look() -> None:
        looking.set()
        others.wait(10)  # the first reader refreshes while the others arrive
        refresh()

    assert sales.current_views()
    monkeypatch.setattr(sales, "_refresh", look)
    sales._snapshot.taken_at = sales._snapshot.tried_at = time.monotonic() - 2
    show(redis, view(id=8, name="Second gong"))

    def ask(number: int) -> str:
        if number == 0:
            return sales.find_sale(8).name
        assert looking.wait(30), "the first reader"
        if number == 1:
            assert sales.find_sale(7).name == "Gong", "a known sale is served without waiting"
            others.set()
        return sales.find_sale(8).name

    assert together([lambda number=number: ask(number) for number in range(20)]) == ["Second gong"] * 20  # type: ignore[misc]


def test_a_sale_shown_by_one_process_can_be_bought_in_another(client: ApiClient, redis: Redis) -> None:
    """The second process looks the sale up itself, although its snapshot is fresh."""
    assert sales.current_views()
    sales._snapshot.taken_at = sales._snapshot.tried_at = time.monotonic() - 2 * sales.RECENTLY_MISSING_S
    show(redis, view(id=8, name="Second gong"))
    assert sales.find_sale(8, missing_for_s=sales.RECENTLY_MISSING_S).name == "Second gong"


def test_while_redis_is_unavailable_callers_do_not_wait_for_each_others_timeouts(
    client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    monkeypatch.setattr(sales, "_refresh", lambda: looks.append(time.monotonic()))
    answers = together([lambda: sales.find_sale(7) for _ in range(40)])
    assert {answer.kind for answer in answers if isinstance(answer, Problem)} == {"sales-unavailable"}
    assert len(answers) == 40 and len(looks) == 1


def test_a_projected_outcome_is_read_without_a_query(client: ApiClient) -> None:
    request_id = uuid4()
    outcome_cache.store_outcomes(project_events([decided(request_id)]), notify=True)
    with queries(0):
        answer = client.get(address(request_id))
    assert answer.json()["state"] == "RESERVED"
    assert 300 < int(answer["X-Poll-After-Ms"]) < 700


def admitted(redis: Redis, *, remembered_before_opening: bool = True) -> UUID:
    """A request that Redis remembers, of a sale that opened a minute ago."""
    opened_at_ms = int(time.time() * 1000) - 60_000
    redis.set(SINCE_KEY, opened_at_ms - 1 if remembered_before_opening else opened_at_ms + 1)
    number = uuid4()
    ask = AdmissionRequest(
        number,
        "0" * 16,
        "ann",
        "1.2.3.4",
        opened_at_ms,
        FOREVER,
        ticket_number=str(number),
        ticket_expires_at_ms=FOREVER,
    )
    [said] = admit_requests([ask])
    assert said.verdict is Verdict.ADMITTED
    return number


def test_a_request_before_inventorys_offset_is_queued_without_a_query(
    client: ApiClient, watch: BacklogMonitor, redis: Redis
) -> None:
    queue_stands_at(watch, 20)
    with queries(0):
        seen = client.get(address(admitted(redis))).json()
    assert (seen["state"], seen["position"], seen["deadline_ms"]) == ("QUEUED", 30, 99)


def test_the_table_is_read_only_for_requests_that_may_be_decided(
    client: ApiClient, watch: BacklogMonitor, redis: Redis
) -> None:
    """The controls: queue unknown, position passed by inventory, or request perhaps not the first."""
    with queries(1):
        assert client.get(address(admitted(redis))).json()["state"] == "QUEUED"
    queue_stands_at(watch, 51)
    with queries(1):
        assert client.get(address(admitted(redis))).json()["state"] == "QUEUED"
    queue_stands_at(watch, 20)
    with queries(1):
        assert client.get(address(admitted(redis, remembered_before_opening=False))).json()["state"] == "QUEUED"


@pytest.mark.parametrize("lose", ["flushed", "away"])
def test_a_decided_request_is_never_shown_as_queued_again_after_redis_loses_it(
    client: ApiClient, watch: BacklogMonitor, redis: Redis, monkeypatch: pytest.MonkeyPatch, lose: str
) -> None:
    """Inventory's progress is observed late, so the request still seems to be queued."""
    request_id = admitted(redis)
    queue_stands_at(watch, 20)
    outcome_cache.store_outcomes(project_events([decided(request_id)]), notify=True)
    assert client.get(address(request_id)).json()["state"] == "RESERVED"
    if lose == "flushed":
        redis.flushall()
    else:
        monkeypatch.setattr(outcome_cache, "fetch_purchase", away)
    assert client.get(address(request_id)).json()["state"] == "RESERVED"


async def away(request_id: UUID) -> CachedPurchase:
    raise RedisError("away")


def test_after_redis_lost_its_memory_a_request_is_queued_only_if_inventory_was_seen_not_to_have_passed_it_since(
    client: ApiClient, watch: BacklogMonitor, redis: Redis
) -> None:
    """A decision may have been shown from Redis while its transaction was rolled back, so the table lacks it."""
    queue_stands_at(watch, 20)
    request_id = admitted(redis)
    redis.flushall()  # after the observation
    show(redis, view())
    sales.current_views(older_than_s=0)
    answer = client.get(address(request_id, NOW_MS))
    assert (answer.status_code, answer.json()["type"], answer["Retry-After"]) == (503, "/problems/status-unknown", "1")
    until(lambda: seen_again(watch, client, request_id) == 200, "an observation by Redis' clock after the loss")
    assert client.get(address(request_id, NOW_MS)).json()["state"] == "QUEUED"
    queue_stands_at(watch, 51)
    assert client.get(address(request_id, NOW_MS)).status_code == 503, "inventory has passed it, and nothing says how"
    long_ago_ms = int(time.time() * 1000) - purchase_status.PROJECTION_MS_MAX - 1000
    redis.set(SINCE_KEY, long_ago_ms)
    assert client.get(address(request_id, NOW_MS)).json()["state"] == "QUEUED", "the projection has had its time"


def seen_again(watch: BacklogMonitor, client: ApiClient, request_id: UUID) -> int:
    queue_stands_at(watch, 20)
    return client.get(address(request_id, NOW_MS)).status_code


def test_while_redis_is_away_a_request_without_a_row_is_neither_queued_nor_missing(
    client: ApiClient, watch: BacklogMonitor, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_stands_at(watch, 20)
    request_id = admitted(redis)
    monkeypatch.setattr(outcome_cache, "fetch_purchase", away)
    assert client.get(address(request_id, NOW_MS)).status_code == 503


def test_a_lost_outcome_is_read_from_the_table_once(client: ApiClient, redis: Redis) -> None:
    request_id = uuid4()
    project_events([decided(request_id)])
    with queries(1):
        assert client.get(address(request_id)).json()["state"] == "RESERVED"
    with queries(0):
        assert client.get(address(request_id)).json()["state"] == "RESERVED"


def test_without_a_signed_position_only_the_owner_finds_a_request(client: ApiClient, redis: Redis) -> None:
    request_id = uuid4()
    redis.set(SINCE_KEY, 1)
    admit_requests(
        [
            AdmissionRequest(
                request_id, "0" * 16, "ann", "1.2.3.4", 0, FOREVER, ticket_number="t", ticket_expires_at_ms=FOREVER
            )
        ]
    )
    bare = f"/api/v1/purchases/{request_id}"
    assert client.get(bare).json()["state"] == "QUEUED"
    bob = {"HTTP_AUTHORIZATION": f"Bearer {tokens.issue_token('bob')}"}
    assert client.get(bare, **bob).status_code == 404  # type: ignore[arg-type]  # headers
    assert client.get(address(request_id), **bob).status_code == 404  # type: ignore[arg-type]
    assert client.get(f"/api/v1/purchases/{uuid4()}").status_code == 404


# ── the projection and its cache ─────────────────────────────────────────────────────────────────
