"""Gateways and inventory are upgraded independently: views and events of the other version must stay readable."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from uuid import uuid4

import pytest

from inventory.events import VERSION, VIEW_SCHEMA, ArticleView, Decision, PurchaseDecided, SaleView, parse_event
from seckill.messaging.envelope import BadEnvelope
from seckill.messaging.record_position import RecordPosition

VIEW = SaleView(1, "Gong", "phone", 100, 1, 10, 7, 2, 1, 4, "open", 0, 10**15)


@dataclass(frozen=True, slots=True)
class NewerSaleView(SaleView):
    """The view of a later release that has added a field."""

    currency: str = "CNY"


def with_fields(**fields: object) -> str:
    return json.dumps(json.loads(VIEW.encode()) | fields)


def test_an_older_gateway_reads_the_view_of_a_newer_inventory() -> None:
    newer = NewerSaleView(**{name: getattr(VIEW, name) for name in SaleView.__slots__}, currency="EUR")
    assert SaleView.decode(newer.encode()) == VIEW


def test_a_newer_gateway_reads_the_view_of_an_older_inventory_and_uses_the_default() -> None:
    view = NewerSaleView.decode(VIEW.encode())
    assert isinstance(view, NewerSaleView)
    assert (view.id, view.currency) == (VIEW.id, "CNY")


def test_a_view_of_a_newer_schema_is_refused_because_it_may_mean_something_else() -> None:
    with pytest.raises(BadEnvelope, match="is not supported"):
        SaleView.decode(with_fields(schema=VIEW_SCHEMA + 1))


@pytest.mark.parametrize("schema", ["1", None, 0, True])
def test_a_view_without_a_proper_schema_number_is_refused(schema: object) -> None:
    with pytest.raises(BadEnvelope, match="is not supported"):
        SaleView.decode(with_fields(schema=schema))


@pytest.mark.parametrize("text", ["", "[]", "7", '{"schema": 1}', '{"schema": 1, "id": 1}'])
def test_a_view_that_lacks_a_required_field_is_refused(text: str) -> None:
    with pytest.raises(BadEnvelope):
        SaleView.decode(text)


def test_an_event_with_an_unknown_field_is_read_and_one_of_a_newer_version_is_refused() -> None:
    decided = PurchaseDecided(uuid4(), "ann", 1, "phone", 1, 100, Decision.RESERVED, 2, 3)
    envelope = decided.envelope(RecordPosition("purchase.requests", 0, 7))
    assert parse_event(envelope._replace(body={**envelope.body, "currency": "CNY"})) == decided
    with pytest.raises(BadEnvelope, match="is not supported"):
        parse_event(envelope._replace(version=VERSION + 1))


TWO = replace(VIEW, more_articles=(ArticleView("watch", 50, 2, 4, 3, 1, 0, 2),))


def test_a_view_of_several_articles_is_read_as_it_was_written_and_splits_into_its_articles() -> None:
    assert SaleView.decode(TWO.encode()) == TWO
    first, second = TWO.articles()
    assert first == VIEW
    assert (second.id, second.sku, second.available, second.stock_version) == (VIEW.id, "watch", 3, 2)
    assert (VIEW.version, TWO.version) == (VIEW.stock_version, VIEW.stock_version + 2)


def test_the_view_of_an_older_inventory_has_one_article() -> None:
    older = {
        name: value for name, value in json.loads(TWO.encode()).items() if name not in ("more_articles", "version")
    }
    assert SaleView.decode(json.dumps(older)) == VIEW


@pytest.mark.parametrize("articles", [7, [7], [{}], [{"sku": "watch"}]])
def test_a_view_with_an_unreadable_article_is_refused(articles: object) -> None:
    with pytest.raises(BadEnvelope):
        SaleView.decode(with_fields(more_articles=articles))
