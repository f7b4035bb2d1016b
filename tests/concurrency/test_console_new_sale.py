"""The console's form for a new sale, on a real Postgres and Redis."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from inventory.models import Sale, Stock
from seckill.audit.models import AuditEntry
from seckill.console.permissions import ConsolePermission
from seckill.console.sale_form import ARTICLES_MAX
from tests.concurrency.stock_cast import forget_redis_clients
from tests.concurrency.test_console_permissions import signed_in

PAGE = "/console/sales/new"
PHONE = {"sku": "phone", "units": "500", "price": "3999.90", "cap": "1"}
WATCH = {"sku": "watch", "units": "20", "price": "0.07", "cap": "2"}
EMPTY = {"sku": "", "units": "", "price": "", "cap": "1"}


@pytest.fixture(autouse=True)
def fresh_clients() -> None:
    forget_redis_clients()


@pytest.fixture
def client() -> Client:
    return signed_in(ConsolePermission.VIEW, ConsolePermission.OPERATE)


def form(*articles: dict[str, str], **changed: str) -> dict[str, str]:
    rows = {f"article-{row}-{name}": text for row, article in enumerate(articles) for name, text in article.items()}
    window = {"name": "Gong", "opens_at": "2099-11-11T20:00", "time_zone": "Asia/Shanghai", "lasts_minutes": "90"}
    counts = {"article-TOTAL_FORMS": str(len(articles)), "article-INITIAL_FORMS": "0"}
    return window | counts | rows | changed


def errors(client: Client, posted: dict[str, str]) -> dict[str, str]:
    """By the id of the field that each error names."""
    answer = client.post(PAGE, posted)
    assert answer.status_code == 400
    page = answer.content.decode()
    found = dict(re.findall(r'<p class="error" id="id_([\w-]+)_error">([^<]*)</p>', page))
    for name in found:
        assert re.search(rf'aria-describedby="[^"]*id_{name}_error"', page), f"{name} does not point at its error"
    assert not Sale.objects.exists() and "The sale was not created." in page
    return {name: unescape(text) for name, text in found.items()}


def test_a_sale_of_several_articles_opens_at_the_operators_own_time(client: Client) -> None:
    answer = client.post(PAGE, form(PHONE, WATCH, EMPTY))
    assert (answer.status_code, answer["Location"]) == (303, "/console")
    [sale] = Sale.objects.all()
    opens_at = datetime(2099, 11, 11, 20, tzinfo=ZoneInfo("Asia/Shanghai"))
    assert sale.opens_at_ms == int(opens_at.timestamp() * 1000)
    assert sale.closes_at_ms - sale.opens_at_ms == 90 * 60_000
    rows = Stock.objects.order_by("id").values_list("sku", "declared", "unit_price", "cap")
    assert list(rows) == [("phone", 500, 399_990, 1), ("watch", 20, 7, 2)]
    trail = AuditEntry.objects.values_list("actor", "verb", "target", "result")
    assert set(trail) == {("olga", "sale create", f"Gong {sku}", "done") for sku in ("phone", "watch")}
    assert "Sale" in client.get("/console").content.decode()


def test_without_a_time_the_sale_opens_at_once(client: Client) -> None:
    assert client.post(PAGE, form(PHONE, opens_at="")).status_code == 303
    opened = datetime.fromtimestamp(Sale.objects.get().opens_at_ms / 1000, UTC)
    assert abs(datetime.now(UTC) - opened) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("changed", "field", "text"),
    [
        ({"name": ""}, "name", "required"),
        ({"name": "x" * 101}, "name", "at most 100"),
        ({"name": "two\u0007"}, "name", "printable"),
        ({"opens_at": "tomorrow"}, "opens_at", "valid date"),
        ({"opens_at": "2001-01-01T00:00"}, "opens_at", "This time is over"),
        ({"opens_at": "2099-03-29T02:30", "time_zone": "Europe/Berlin"}, "opens_at", "clocks are changed"),
        ({"time_zone": "Shanghai"}, "time_zone", "No time zone has this name"),
        ({"time_zone": "../etc/passwd"}, "time_zone", "No time zone has this name"),
        ({"lasts_minutes": "0"}, "lasts_minutes", "greater than or equal to 1"),
        ({"article-0-sku": ""}, "article-0-sku", "required"),
        ({"article-0-units": "ten"}, "article-0-units", "whole number"),
        ({"article-0-units": "0"}, "article-0-units", "greater than or equal to 1"),
        ({"article-0-price": "-1"}, "article-0-price", "greater than or equal to 0"),
        ({"article-0-price": "1.005"}, "article-0-price", "2 decimal places"),
        ({"article-0-price": "NaN"}, "article-0-price", "Enter a number"),
        ({"article-0-cap": "0"}, "article-0-cap", "greater than or equal to 1"),
        ({"article-1-sku": "phone"}, "article-1-sku", "Another article of this sale has this name."),
        ({"article-1-units": ""}, "article-1-units", "required"),
    ],
)
def test_each_mistake_is_named_beside_its_field_and_nothing_is_created(
    changed: dict[str, str], field: str, text: str, client: Client
) -> None:
    found = errors(client, form(PHONE, WATCH, **changed))
    assert list(found) == [field] and text in found[field]


def test_what_was_typed_is_still_there_after_a_mistake(client: Client) -> None:
    page = client.post(PAGE, form(PHONE, WATCH, lasts_minutes="soon")).content.decode()
    for text in ("Gong", "2099-11-11T20:00", "Asia/Shanghai", "soon", "3999.90", "watch"):
        assert f'value="{text}"' in page


def test_another_article_adds_an_empty_row_and_checks_nothing(client: Client) -> None:
    page = client.post(PAGE, form(PHONE, more="1")).content.decode()
    assert 'value="phone"' in page and 'name="article-1-sku"' in page and "error" not in page
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("rows", ["", "x", "-1", "99999", "21"])
def test_a_forged_number_of_rows_is_limited(rows: str, client: Client) -> None:
    forged = form(PHONE) | {"article-TOTAL_FORMS": rows}
    page = client.post(PAGE, forged | {"more": "1"}).content.decode()
    assert page.count("<fieldset") <= ARTICLES_MAX
    assert client.post(PAGE, forged | {"article-1-units": "?"}).status_code == 400


def test_a_refusal_of_the_command_is_shown_and_audited(client: Client) -> None:
    page = client.post(PAGE, form(PHONE, lasts_minutes="129600", opens_at="9999-12-31T00:00", time_zone="UTC"))
    assert page.status_code in (303, 400)
    assert AuditEntry.objects.exists()
