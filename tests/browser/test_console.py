"""What an operator sees and does: signs in, reads the board, speaks a verb that is written down under his name."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Open
from tests.journeys.stack import Buyer, Stack

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="session")
def password(stack: Stack) -> str:
    made = stack.manage("operator", "olga")
    return made.split()[-1]


def enter(visit: Open, password: str, path: str = "/console") -> Page:
    page = visit(path, phone=False)
    page.get_by_label("Name").fill("olga")
    page.get_by_label("Password").fill(password)
    page.get_by_role("main").get_by_role("button", name="Sign in").click()
    return page


def test_nobody_else_enters(visit: Open, password: str) -> None:
    page = enter(visit, "a wrong one")
    expect(page.get_by_role("alert")).to_contain_text("wrong")
    page.goto("/console/letters")
    expect(page.get_by_role("heading", name="Console: sign in")).to_be_visible()


def test_the_board_shows_the_sale_and_a_pause_is_written_down(stack: Stack, visit: Open, password: str) -> None:
    sale = stack.create_sale(5)
    buyer = Buyer(stack, "seen")
    request = buyer.buy(sale)[1]["request_id"]
    buyer.wait_for(request, "AWAITING_PAYMENT")

    page = enter(visit, password)
    expect(page.locator("#verdict")).to_have_text(re.compile("hold", re.I))
    expect(page.locator("#invariants li")).to_have_count(20)
    expect(page.locator("#hops tr")).to_have_count(7)
    expect(page.locator("#outcomes")).to_contain_text("to be paid")
    expect(page.locator("#rates canvas")).to_be_visible()
    hop = page.get_by_role("button", name="decided")
    hop.focus()
    for _ in range(3):  # the board is drawn anew, and the keyboard keeps its place
        page.wait_for_event("response", lambda answer: "/console/live" in answer.url)
    page.keyboard.press("Enter")
    expect(hop).to_be_focused()
    expect(hop).to_have_attribute("aria-expanded", "true")
    expect(page.locator("#partition-rows tr")).to_have_count(24)  # of both queues
    expect(page.locator("#partition-rows")).to_contain_text("inventory.1")
    expect(page.locator("#processes")).to_contain_text("inventory.1")

    page.get_by_label("Sale", exact=True).select_option(str(sale))
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("status").first).to_contain_text("done")
    assert stack.query("SELECT state FROM inventory_sale WHERE id = %s", sale) == [("paused",)]
    expect(page.locator("#sales")).to_contain_text("paused")
    page.get_by_label("Sale", exact=True).select_option(str(sale))
    page.get_by_role("button", name="Open").click()
    expect(said(page)).to_contain_text("open, done")
    assert stack.query("SELECT state FROM inventory_sale WHERE id = %s", sale) == [("open",)]
    page.get_by_role("link", name="Audit").click()
    expect(page.get_by_role("row", name=re.compile(f"olga.*sale pause.*sale {sale}"))).to_be_visible()

    page.goto(f"/console/trace?id={request}")
    expect(page.get_by_role("cell", name=re.compile(r"purchase\.requests-\d+@\d+"))).to_be_visible()
    expect(page.get_by_role("cell", name=re.compile("RESERVED"))).to_be_visible()


def test_a_sale_is_closed_by_who_is_sure_of_it(stack: Stack, visit: Open, password: str) -> None:
    sale = stack.create_sale(1)
    page = enter(visit, password)
    page.get_by_label("Sale", exact=True).select_option(str(sale))
    page.once("dialog", lambda question: question.dismiss())
    page.get_by_role("button", name="Close").click()
    assert stack.query("SELECT state FROM inventory_sale WHERE id = %s", sale) == [("open",)]
    page.once("dialog", lambda question: question.accept())
    page.get_by_role("button", name="Close").click()
    expect(said(page)).to_contain_text("close, done")
    assert stack.query("SELECT state FROM inventory_sale WHERE id = %s", sale) == [("closed",)]


def test_a_channel_is_held_still_and_catches_up(visit: Open, password: str) -> None:
    page = enter(visit, password)
    for press, still in (("Switch off", "notify.email"), ("Switch on", "–")):
        page.get_by_label("What the sale goes on without").select_option("notify.email")
        page.get_by_role("button", name=press).click()
        expect(said(page)).to_contain_text("Done.")
        expect(page.locator("#off")).to_have_text(still)


def test_a_process_is_killed_and_comes_back(stack: Stack, visit: Open, password: str) -> None:
    page = enter(visit, password)
    page.get_by_label("Process or service").fill("inventory.sweep")
    page.get_by_role("button", name="kill -9", exact=True).click()
    expect(page.get_by_role("status").first).to_contain_text("kill inventory.sweep: done.")
    expect(page.locator("#processes")).to_contain_text("inventory.sweep up ↻ 1")


def said(page: Page) -> Locator:
    """What came of the last word, above the board."""
    return page.locator(".notice[role=status]")


def audited(page: Page, *rows: str) -> None:
    """Each of them stands in the trail under her name, and nothing else is needed to know who did it."""
    page.goto("/console/audit")
    for row in rows:
        expect(page.get_by_role("row", name=re.compile(f"olga {row}")).first).to_be_visible()


def test_the_stock_is_adjusted_and_what_cannot_be_taken_away_is_told(stack: Stack, visit: Open, password: str) -> None:
    sale = stack.create_sale(2)
    page = enter(visit, password)
    for units, told in (("3", "5 units are available now."), ("-6", "fewer units are available")):
        page.get_by_label("Sale", exact=True).select_option(str(sale))
        page.get_by_label("Units, more or fewer").fill(units)
        page.get_by_role("button", name="Adjust the stock").click()
        expect(said(page)).to_contain_text(told)
    assert stack.query("SELECT available FROM inventory_stock WHERE sale_id = %s", sale) == [(5,)]
    audited(page, f"sale adjust sale {sale} phone units=3 done", f"sale adjust sale {sale} phone units=-6 Refused: .*")


def test_a_paid_order_is_refunded_once_and_its_unit_is_for_sale_again(stack: Stack, visit: Open, password: str) -> None:
    sale = stack.create_sale(1)
    buyer = Buyer(stack, "sorry")
    request = buyer.buy(sale)[1]["request_id"]
    order = buyer.wait_for(request, "AWAITING_PAYMENT")["order_id"]
    assert buyer.act(order, "pay")[0] < 300
    buyer.wait_for(request, "PAID")

    page = enter(visit, password)
    for told in ("Refunded; the money is back.", f"order {order} is REFUNDED"):
        page.get_by_label("A paid order").fill(order)
        page.get_by_label("its units go back into the sale").check()
        page.locator("#because").fill("it was dented")
        page.get_by_role("button", name="Give the money back").click()
        expect(said(page)).to_contain_text(told)
    [(state, units)] = stack.query(
        "SELECT state, count(*) OVER () FROM orders_payment WHERE order_id = %s AND state <> 'failed'", order
    )
    assert (state, units) == ("refunded", 1)
    stack.wait_until(
        lambda: stack.query("SELECT available, sold FROM inventory_stock WHERE sale_id = %s", sale) == [(1, 0)],
        "the unit to be for sale again",
    )
    audited(page, f"refund {order} .*because=it was dented.* done", f"refund {order} .*Refused: .*")


def test_a_service_is_scaled_up_and_down(stack: Stack, visit: Open, password: str) -> None:
    page = enter(visit, password)
    for count in ("2", "1"):
        page.get_by_label("Process or service").fill("orders")
        page.get_by_label("How many", exact=True).fill(count)
        page.get_by_role("button", name="Scale").click()
        expect(said(page)).to_contain_text("scale orders: done.")
        second = page.locator("#processes li", has_text="orders.2")
        if count == "2":
            expect(second).to_have_class("holds")
        else:
            expect(second).to_have_count(0)
    audited(page, "stack scale orders count=2 done", "stack scale orders count=1 done")


def test_redis_forgets_everything_at_a_press_and_the_sale_goes_on(stack: Stack, visit: Open, password: str) -> None:
    sale = stack.create_sale(1)
    page = enter(visit, password)
    page.get_by_role("button", name="FLUSHALL in Redis").click()
    expect(said(page)).to_contain_text("counted anew from the ledger")
    buyer = Buyer(stack, "after")
    stack.wait_until(lambda: buyer.buy(sale)[0] == 202, "the gate to open again")
    buyer.wait_for(buyer.buy(sale)[1]["request_id"], "AWAITING_PAYMENT")
    audited(page, "fault redis-flushall redis .*done")


def test_the_board_says_when_its_numbers_are_old(stack: Stack, visit: Open, password: str) -> None:
    page = enter(visit, password)
    expect(page.locator("#hops tr")).to_have_count(7)
    page.route("**/console/live*", lambda route: route.abort())
    expect(page.locator("#no-answer")).to_be_visible()
    page.unroute("**/console/live*")
    expect(page.locator("#no-answer")).to_be_hidden()


def test_a_dead_letter_is_read_tried_and_replayed(stack: Stack, visit: Open, password: str) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=f"127.0.0.1:{stack.ports['broker']}")
    producer.send("purchase.requests", key=b"poison", value=b"<no envelope>").get(20)
    producer.close()
    stack.wait_until(lambda: stack.query("SELECT id FROM streams_dead_letter"), "the record to die")

    page = enter(visit, password, "/console/letters")
    page.get_by_role("cell", name=re.compile("purchase.requests-")).wait_for()
    page.locator("tbody a").first.click()
    expect(page.get_by_text("<no envelope>")).to_be_visible()
    expect(page.get_by_text("Dry run:")).to_contain_text("no envelope")
    page.get_by_role("button", name="Replay it").click()
    expect(page.get_by_role("status")).to_contain_text("no envelope")
    page.get_by_label("Why").fill("a test")
    page.get_by_role("button", name="Discard it").click()
    expect(page.get_by_role("status")).to_contain_text("Discarded.")
    assert stack.query("SELECT state, note FROM streams_dead_letter") == [("discarded", "a test")]


def test_a_report_is_made_while_its_operator_looks_for_a_purchase(stack: Stack, visit: Open, password: str) -> None:
    buyer = Buyer(stack, "traced")
    buyer.wait_for(buyer.buy(stack.create_sale(1))[1]["request_id"], "AWAITING_PAYMENT")
    page = enter(visit, password, "/console/reports")
    page.get_by_role("button", name="Make one now").click()
    expect(page.get_by_role("button", name="One is being made")).to_be_disabled()

    page.get_by_role("link", name="Trace").click()
    page.get_by_label("A request, an order").fill("traced")
    page.get_by_role("button", name="Trace it").click()
    expect(page.get_by_role("cell", name=re.compile("RESERVED"))).to_be_visible()

    page.get_by_role("link", name="Reports").click()
    page.get_by_role("link", name="Read it").click(timeout=90_000)  # the page looks again by itself
    expect(page.get_by_role("heading", name=re.compile("invariants", re.I)).first).to_be_visible()
    audited(page, r"report \d{8}-\d{6} .*done")
