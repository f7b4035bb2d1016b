"""The buyer's pages in a browser: a purchase, sold out, a lost connection, no scripts, Chinese."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Open
from tests.journeys.stack import Buyer, Stack

pytestmark = pytest.mark.timeout(180)


LAYOUT_SHIFT = """() => new Promise((resolve) => {
  new PerformanceObserver((list) => resolve(list.getEntries().reduce((sum, each) => sum + each.value, 0)))
    .observe({ type: "layout-shift", buffered: true });
  setTimeout(() => resolve(0), 500);
})"""
"""The sum of all layout shifts since the page was loaded; without any, the browser reports nothing."""


def sign_in(page: Page, name: str) -> None:
    page.get_by_label("Your name").fill(name)
    page.get_by_role("main").get_by_role("button", name="Sign in").click()


def open_sale(visit: Open, sale: int, name: str, *, several: bool = False, **how: Any) -> Page:
    """`several`: the sale has more than one article, each with its own link to the sign-in."""
    page = visit(f"/shop/{sale}", **how)
    links = page.get_by_role("link", name="Sign in to buy")
    (links.first if several else links).click()
    sign_in(page, name)
    return page


def headline(page: Page, text: str) -> Locator:
    """The large text that says the state of the purchase."""
    return page.locator(".big", has_text=text)


def test_a_whole_purchase(stack: Stack, visit: Open) -> None:
    sale = stack.create_sale(10)
    page = open_sale(visit, sale, "ann")
    page.get_by_role("button", name="Buy").dblclick()
    expect(headline(page, "Reserved for you: pay within")).to_be_visible()
    expect(page.locator("[data-until-ms]").first).to_have_text(re.compile(r"^1[45]:\d\d$"))

    page.get_by_role("button", name="Pay").click()
    expect(headline(page, "Paid")).to_be_visible()

    page.get_by_role("link", name="Order details").click()
    expect(page.get_by_role("listitem")).to_have_text([re.compile(part) for part in (
        "ordered", "payment started", "paid|payment received", "paid|payment received",
    )])  # fmt: skip
    assert stack.query("SELECT count(*) FROM inventory_decided WHERE sale_id = %s", sale) == [(1,)], "a double click"


def test_another_tab_and_another_device_show_the_same_purchase(stack: Stack, visit: Open) -> None:
    sale = stack.create_sale(10)
    page = open_sale(visit, sale, "bob")
    page.get_by_role("button", name="Buy").click()
    expect(headline(page, "Reserved for you: pay within")).to_be_visible()
    other = open_sale(visit, sale, "bob")
    expect(other.get_by_text("awaiting payment")).to_be_visible()
    expect(other.get_by_role("button", name="Buy")).to_have_count(0)
    other.get_by_role("link", name="Pay now").click()
    assert other.url.partition("?")[0] == page.url.partition("?")[0]


def test_after_cancelling_a_buyer_can_buy_again(stack: Stack, visit: Open) -> None:
    sale = stack.create_sale(1)
    page = open_sale(visit, sale, "eve")
    page.get_by_role("button", name="Buy").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("The unit is back on sale.")).to_be_visible()
    page.get_by_role("link", name="Try again").click()
    page.get_by_role("button", name="Buy again").click()
    expect(headline(page, "Reserved for you: pay within")).to_be_visible()


def test_all_units_reserved_is_not_sold_out(stack: Stack, visit: Open) -> None:
    sale = stack.create_sale(1)
    page = open_sale(visit, sale, "late")
    first = Buyer(stack, "early")
    held = first.wait_for(first.buy(sale)[1]["request_id"], "AWAITING_PAYMENT")

    button = page.get_by_role("button", name="Try for a returned unit")
    expect(button).to_be_enabled()
    expect(headline(page, "All units are reserved.")).to_be_visible()
    button.click()
    expect(headline(page, "All units are reserved")).to_be_visible()

    assert first.act(held["order_id"], "pay")[0] == 202
    page.goto(f"/shop/{sale}")
    expect(page.get_by_role("button", name="Sold out")).to_be_disabled()
    expect(page.get_by_text("The last unit has been sold.")).to_be_visible()


def test_the_button_wakes_at_the_opening_without_a_reload(stack: Stack, visit: Open) -> None:
    made = stack.run_command("sale", "create", "--name", "Gong", "--sku", "phone", "--units", "3", "--opens-in", "15")
    sale = int(re.findall(r'"sale": (\d+)', made)[0])
    stack.wait_until(lambda: stack.call("GET", f"/sales/{sale}")[0] == 200, "the gateway to know the sale")
    page = open_sale(visit, sale, "gong")
    expect(page.get_by_role("button", name="Not started yet")).to_be_disabled()
    expect(headline(page, "Starts in")).to_be_visible()
    loaded = page.evaluate("performance.timeOrigin")
    expect(page.get_by_role("button", name="Buy")).to_be_enabled()
    assert page.evaluate("performance.timeOrigin") == loaded, "the page was reloaded"
    assert page.evaluate(LAYOUT_SHIFT) < 0.02, "the page moved under the buyer's finger"
    page.get_by_role("button", name="Buy").click()  # with a ticket that the page fetches now
    expect(headline(page, "Reserved for you: pay within")).to_be_visible()


def test_a_lost_stream_is_reported_and_resumes_with_its_last_event(stack: Stack, visit: Open) -> None:
    sale = stack.create_sale(10)
    page = open_sale(visit, sale, "lost")
    page.get_by_role("button", name="Buy").click()
    expect(headline(page, "Reserved for you: pay within")).to_be_visible()

    with page.expect_response(lambda answer: "/events" in answer.url and answer.ok) as taken_up:
        stack.run_command("kill", "gateway")  # the supervisor restarts it
        expect(page.get_by_text("Connection lost.")).to_be_visible()
    assert taken_up.value.request.all_headers()["last-event-id"] == "40", "the version of AWAITING_PAYMENT"
    expect(page.get_by_text("Connection lost.")).to_be_hidden()

    order = stack.query("SELECT id FROM orders_order WHERE sale_id = %s", sale)[0][0]
    assert Buyer(stack, "lost").act(str(order), "pay")[0] == 202
    expect(headline(page, "Paid")).to_be_visible()


def test_without_a_stream_the_page_polls_its_position_in_the_queue(stack: Stack, visit: Open) -> None:
    sale = stack.create_sale(10)
    page = open_sale(visit, sale, "queued")
    page.route("**/events?*", lambda stream: stream.abort())
    stack.run_command("stop", "inventory")
    try:
        page.get_by_role("button", name="Buy").click()
        expect(headline(page, "In the queue")).to_be_visible()
        expect(page.locator("[data-ahead-words]")).to_have_text(re.compile("It is your turn|ahead of yours"))
        expect(page.locator("[data-eta]")).to_have_text(re.compile("about|not known yet"))
        expect(page.get_by_text("Connection lost.")).to_be_visible()
    finally:
        stack.run_command("start", "inventory")
    expect(headline(page, "Reserved for you: pay within")).to_be_visible()


def test_a_whole_purchase_without_scripts(stack: Stack, visit: Open) -> None:
    sale = stack.create_sale(1)
    page = open_sale(visit, sale, "plain", scripts=False)
    page.get_by_role("button", name="Buy").click()
    expect(headline(page, "Reserved for you: pay within")).to_be_visible()  # the page refreshes itself
    page.get_by_role("button", name="Pay").click()
    page.get_by_role("link", name="My orders").click()
    page.get_by_role("link", name="Purchase status").click()
    expect(headline(page, "Paid")).to_be_visible()

    loser = visit(f"/shop/{sale}", scripts=False)
    expect(loser.get_by_role("button", name="Sold out")).to_be_disabled()


def test_the_language_follows_the_browser_and_can_be_changed(stack: Stack, visit: Open) -> None:
    sale = stack.create_sale(10)
    page = visit(f"/shop/{sale}", language="zh-CN")
    expect(page.get_by_role("link", name="登录后购买")).to_be_visible()
    page.get_by_role("button", name="English").click()
    expect(page.get_by_role("link", name="Sign in to buy")).to_be_visible()


def test_somebody_elses_purchase_is_not_found(stack: Stack, visit: Open) -> None:
    sale = stack.create_sale(10)
    other = Buyer(stack, "other")
    request = other.buy(sale)[1]["request_id"]
    page = open_sale(visit, sale, "nosy")
    page.goto(f"/p/{request}")
    expect(page.get_by_role("heading", name="We could not find this purchase.")).to_be_visible()
