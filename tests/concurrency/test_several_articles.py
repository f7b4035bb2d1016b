"""A sale of several articles on a real Postgres and Redis: each has its own stock, a buyer has one active purchase."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from django.db import transaction
from redis import Redis

from gateway.purchase import PurchaseCall, unpaid_units_max
from inventory import batch_sql, reservation, sale_commands, sale_view
from inventory.events import ArticleView, SaleView, view_key
from inventory.models import DecidedRequest, Hold, Stock
from inventory.sale_commands import Article, SaleCommandRejected
from seckill.audit.models import AuditEntry
from seckill.resilience.admission_keys import admission_key
from seckill.web.problems import Problem
from tests.concurrency.gateway_purchase_cast import SALE, Writer, buy, call, make_purchases, open_sale
from tests.concurrency.stock_cast import FAR_MS, batch_of, decide, forget_redis_clients, request, settle

PHONE, WATCH = Article("phone", 10, 9900, 1), Article("watch", 4, 4900, 2)


@pytest.fixture(autouse=True)
def fresh_clients() -> None:
    forget_redis_clients()


@pytest.fixture
def stocks() -> list[Stock]:
    return sale_commands.create_sale_of("Gong", [PHONE, WATCH], 0, FAR_MS)


def decisions_of(user: str) -> dict[str, str]:
    return dict(DecidedRequest.objects.filter(user_id=user).values_list("sku", "decision"))


def test_each_article_is_decided_from_its_own_stock(stocks: list[Stock]) -> None:
    phone, watch = stocks
    decide([request(phone, "ann"), request(watch, "bob", 2), request(watch, "cat", 2), request(watch, "dan")])
    assert dict(Hold.objects.values_list("user_id", "stock__sku")) == {"ann": "phone", "bob": "watch", "cat": "watch"}
    assert decisions_of("dan") == {"watch": "SOLD_OUT"}
    for stock in stocks:
        stock.refresh_from_db()
    assert (phone.available, watch.available) == (9, 0)


def test_a_buyer_gets_one_article_even_if_both_requests_are_in_one_batch(stocks: list[Stock]) -> None:
    phone, watch = stocks
    first = request(phone, "ann")
    decide([first, request(watch, "ann")])
    assert decisions_of("ann") == {"phone": "RESERVED", "watch": "DUPLICATE"}
    settle(first)
    decide([request(watch, "ann")], start=2)
    assert DecidedRequest.objects.filter(user_id="ann", sku="watch", decision="RESERVED").count() == 1


def test_without_the_buyers_of_the_other_article_a_batch_could_never_be_stored(
    stocks: list[Stock], monkeypatch: pytest.MonkeyPatch
) -> None:
    phone, watch = stocks
    apply_rule: Callable[..., object] = reservation._apply_rule
    monkeypatch.setattr(
        reservation, "_apply_rule", lambda stock, arrived, _granted, now_ms: apply_rule(stock, arrived, set(), now_ms)
    )
    with pytest.raises(batch_sql.ConcurrentUpdate), transaction.atomic():
        reservation.decide_batch(batch_of([request(phone, "ann"), request(watch, "ann")]))


def test_the_view_shows_all_articles_and_a_change_of_any_makes_it_newer(redis: Redis, stocks: list[Stock]) -> None:
    def view() -> SaleView:
        return SaleView.decode(redis.get(admission_key(view_key(stocks[0].sale_id))) or "")

    before = view()
    assert [(each.sku, each.available, each.unit_price) for each in before.articles()] == [
        ("phone", 10, 9900), ("watch", 4, 4900),
    ]  # fmt: skip
    decide([request(stocks[1], "ann")])
    after = view()
    assert after.stock_version == before.stock_version and after.version == before.version + 1
    sale_view.publish_all_views()
    assert view() == after
    stale = before.encode()
    redis.eval(sale_view._PUBLISH_VIEW, 2, "x:view", "x:set", after.encode(), after.version, 1, 60_000, 1)
    redis.eval(sale_view._PUBLISH_VIEW, 2, "x:view", "x:set", stale, before.version, 1, 60_000, 1)
    assert SaleView.decode(redis.get("x:view") or "") == after, "an older view never replaces a newer one"


def test_either_all_articles_are_created_and_audited_or_none() -> None:
    wrong = [
        [PHONE, replace_units(WATCH, 0)],
        [PHONE, PHONE],
        [PHONE, WATCH._replace(sku="two\nlines")],
    ]  # fmt: skip
    for articles in wrong:
        with pytest.raises(SaleCommandRejected):
            sale_commands.create_sale_of("Gong", articles, 0, FAR_MS)
    assert not Stock.objects.exists()
    refusals = AuditEntry.objects.count()
    sale_commands.create_sale_of("Gong", [PHONE, WATCH], 0, FAR_MS)
    made = AuditEntry.objects.filter(result="done").values_list("target", "arguments__units")
    assert set(made) == {("Gong phone", 10), ("Gong watch", 4)} and refusals == len(wrong)


def replace_units(article: Article, units: int) -> Article:
    return article._replace(units=units)


# ── the gateway ──────────────────────────────────────────────────────────────────────────────────

TWO = replace(SALE, more_articles=(ArticleView("watch", 4900, 2, 4, 4, 0, 0, 9),))


def asking_for(sku: object, name: str = "ann", key: str = "one") -> PurchaseCall:
    return call(name, key)._replace(body=json.dumps({"quantity": 1, "sku": sku}).encode())


def test_a_purchase_names_its_article_and_without_a_name_it_is_the_first(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_sale(redis, monkeypatch, TWO)
    writer = Writer()
    purchases = make_purchases(writer)
    for name, body in (("ann", b"{}"), ("bob", b'{"sku": "phone"}'), ("cat", b'{"sku": "watch"}')):
        buy(purchases, call(name)._replace(body=body))
    assert [json.loads(each["value"])["body"]["sku"] for each in writer.sent] == ["phone", "phone", "watch"]


@pytest.mark.parametrize("sku", ["lamp", "", None, 7, ["watch"]])
def test_an_unknown_article_is_refused(sku: object, redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    open_sale(redis, monkeypatch, TWO)
    writer = Writer()
    with pytest.raises(Problem) as refused:
        buy(make_purchases(writer), asking_for(sku))
    assert (refused.value.status, refused.value.kind, writer.sent) == (404, "no-such-article", [])


def test_the_same_key_for_another_article_is_refused(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    open_sale(redis, monkeypatch, TWO)
    purchases = make_purchases(Writer())
    buy(purchases, asking_for("watch"))
    with pytest.raises(Problem) as refused:
        buy(purchases, asking_for("phone"))
    assert refused.value.kind == "key-reused"


def test_one_article_is_sold_out_while_the_other_is_not(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    sold = replace(TWO.more_articles[0], available=0, sold=4)
    open_sale(redis, monkeypatch, replace(TWO, more_articles=(sold,)))
    purchases = make_purchases(Writer())
    with pytest.raises(Problem) as refused:
        buy(purchases, asking_for("watch"))
    assert (refused.value.kind, refused.value.extra) == ("sold-out", {"stock_version": 9})
    buy(purchases, asking_for("phone", key="two"))


def test_an_address_may_hold_a_share_of_all_articles_unpaid() -> None:
    assert unpaid_units_max(TWO) == (1000 + 4) * 25 // 100
