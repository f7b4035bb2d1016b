"""A sale of two articles in a browser: created in the console, shown and sold in the shop, also without a network."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open
from tests.browser.test_accessibility import findings
from tests.browser.test_console import enter, notice, password
from tests.browser.test_shop import headline, open_sale
from tests.journeys.stack import Stack

__all__ = ["password"]

pytestmark = pytest.mark.timeout(180)


def fill_form(page: Page, opens_at: str = "") -> None:
    page.get_by_role("button", name="Another article").click()
    page.get_by_label("Name of the sale").fill("Two things")
    page.get_by_label("Opens at").fill(opens_at)
    for row, (sku, price) in enumerate((("Aurora phone", "3999"), ("Pulse watch", "899.5"))):
        fields = page.locator("fieldset").nth(row)
        fields.get_by_label("Article", exact=True).fill(sku)
        fields.get_by_label("Units", exact=True).fill("5")
        fields.get_by_label("Price, in ¥").fill(price)


@pytest.fixture
def sale(stack: Stack, visit: Open, password: str) -> int:
    page = enter(visit, password, "/console/sales/new")
    fill_form(page)
    page.get_by_role("button", name="Create the sale").click()
    expect(notice(page)).to_contain_text("was created with 2 articles")
    found = re.search(r"Sale (\d+)", notice(page).inner_text())
    assert found is not None
    sale = int(found[1])
    stack.wait_until(lambda: stack.call("GET", f"/sales/{sale}")[0] == 200, "the gateway to know the sale")
    return sale


def test_the_form_names_each_mistake_and_the_sale_opens_at_the_readers_own_time(
    stack: Stack, visit: Open, password: str
) -> None:
    page = enter(visit, password, "/console/sales/new")
    expect(page.get_by_label("Time zone of this time")).to_have_value("Asia/Shanghai")
    fill_form(page, "2001-01-01T20:00")
    page.locator("fieldset").first.get_by_label("Units", exact=True).fill("0")
    page.get_by_role("button", name="Create the sale").click()
    expect(page.get_by_label("Opens at")).to_have_accessible_description(re.compile("This time is over"))
    expect(page.get_by_label("Units", exact=True).first).to_have_accessible_description(
        re.compile("greater than or eq")
    )
    assert findings(page) == []
    page.get_by_label("Opens at").fill("2099-11-11T20:00")
    page.get_by_label("Units", exact=True).first.fill("5")
    page.get_by_role("button", name="Create the sale").click()
    expect(notice(page)).to_contain_text("2099-11-11 20:00 Asia/Shanghai")
    [[sale]] = stack.query("SELECT max(id) FROM inventory_sale")
    stack.wait_until(lambda: stack.call("GET", f"/sales/{sale}")[0] == 200, "the gateway to know the sale")
    for zone, time in (("Asia/Shanghai", "20:00"), ("Europe/London", "12:00")):
        shop = visit(f"/shop/{sale}", zone=zone)
        expect(shop.locator(".hero time[data-local=opening]").first).to_contain_text(time)
    plain = visit(f"/shop/{sale}", scripts=False)
    expect(plain.locator(".hero time[data-local=opening]").first).to_have_text("2099-11-11 12:00 UTC")
    stack.run_command("sale", "close", str(sale))


def test_every_article_can_be_bought_and_only_one_of_them(stack: Stack, visit: Open, sale: int) -> None:
    page = open_sale(visit, sale, "two-arms", several=True)
    expect(page.locator("[data-article] img")).to_have_count(2)
    assert findings(page) == []
    watch = page.locator("[data-article='Pulse watch']")
    expect(watch.locator("[data-value=available]")).to_have_text("5")
    watch.get_by_role("button", name="Buy").dblclick()
    expect(headline(page, "Reserved for you: pay within")).to_be_visible()
    expect(page.locator("#purchase")).to_contain_text("Pulse watch · ¥899.50")
    page.goto(f"/p/{page.url.rpartition('/p/')[2][:36]}?sale={sale}")
    expect(page.locator("#purchase")).to_contain_text("Pulse watch")  # without its name in the address

    page.goto(f"/shop/{sale}")
    expect(page.get_by_role("button", name="Buy")).to_have_count(0)
    expect(watch.locator("[data-value=available]")).to_have_text("4")
    page.get_by_role("link", name="Pay now").click()
    page.get_by_role("button", name="Pay").click()
    expect(headline(page, "Paid")).to_be_visible()
    assert stack.query("SELECT sku, amount FROM orders_order WHERE sale_id = %s", sale) == [("Pulse watch", 89950)]


def test_without_scripts_the_second_article_can_be_bought(stack: Stack, visit: Open, sale: int) -> None:
    page = open_sale(visit, sale, "plain-watch", several=True, scripts=False)
    page.locator("[data-article='Pulse watch']").get_by_role("button", name="Buy").click()
    expect(headline(page, "Reserved for you: pay within")).to_be_visible()
    expect(page.locator("#purchase")).to_contain_text("Pulse watch")


def test_without_a_network_the_pages_say_what_still_holds_and_continue(stack: Stack, visit: Open, sale: int) -> None:
    page = open_sale(visit, sale, "tunnel", several=True)
    buy = page.locator("[data-article='Aurora phone']").get_by_role("button", name="Buy")
    page.context.set_offline(True)
    expect(page.get_by_text("You are offline. These numbers")).to_be_visible()
    buy.click()
    expect(page.get_by_text("Your request was not sent")).to_have_count(2)
    expect(page.get_by_text("Your request was not sent").first).to_be_visible()
    page.context.set_offline(False)
    expect(page.get_by_text("Your request was not sent").first).to_be_hidden()
    expect(page.get_by_text("You are offline. These numbers")).to_be_hidden()

    stack.run_command("stop", "inventory")
    try:
        buy.click()
        expect(headline(page, "In the queue")).to_be_visible()
        page.context.set_offline(True)
        expect(page.get_by_text("You are offline.")).to_be_visible()
        expect(page.locator("[data-what-holds]")).to_have_text("Your request is in the queue; nothing is lost.")
    finally:
        stack.run_command("start", "inventory")
    page.context.set_offline(False)
    expect(headline(page, "Reserved for you: pay within")).to_be_visible()
    expect(page.get_by_text("You are offline.")).to_be_hidden()
