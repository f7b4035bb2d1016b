"""The console in a browser: sign-in, the board with its charts, operations and their audit entries."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import Open
from tests.journeys.stack import Buyer, Stack

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="session")
def password(stack: Stack) -> str:
    made = stack.run_command("manage", "operator", "olga")
    return made.split()[-1]


def enter(visit: Open, password: str, path: str = "/console") -> Page:
    page = visit(path, phone=False)
    page.get_by_label("Name").fill("olga")
    page.get_by_label("Password").fill(password)
    page.get_by_role("main").get_by_role("button", name="Sign in").click()
    return page


def test_a_wrong_password_is_refused(visit: Open, password: str) -> None:
    page = enter(visit, "a wrong one")
    expect(page.get_by_role("alert")).to_contain_text("Wrong name or password")
    page.goto("/console/letters")
    expect(page.get_by_role("heading", name="Console: sign in")).to_be_visible()


def test_the_board_shows_the_sale_and_a_pause_is_audited(stack: Stack, visit: Open, password: str) -> None:
    sale = stack.create_sale(5)
    buyer = Buyer(stack, "seen")
    request = buyer.buy(sale)[1]["request_id"]
    buyer.wait_for(request, "AWAITING_PAYMENT")

    page = enter(visit, password)
    expect(page.locator("#verdict")).to_have_text(re.compile("hold", re.I))
    expect(page.locator("#invariants .judge")).to_have_count(4)
    expect(page.locator("#invariants li")).to_have_count(20)
    expect(page.locator("[data-hop]")).to_have_count(7)
    expect(page.locator("#outcomes")).to_contain_text("awaiting payment")
    expect(page.locator("#rates svg")).to_have_attribute("data-points", re.compile(r"[1-9]"))
    for name in ("offered", "acknowledged", "decided"):
        expect(page.locator(f"#rates path[data-series={name}]")).to_have_attribute("d", re.compile("^M.*L"))
    expect(page.locator("#backlog path[data-series=backlog]")).to_have_attribute("d", re.compile("^M.*L"))
    hop = page.get_by_role("button", name=re.compile("^decide: .* lag"))
    hop.focus()
    for _ in range(3):  # the board is updated, and the keyboard focus stays
        page.wait_for_event("response", lambda answer: "/console/live" in answer.url)
    page.keyboard.press("Enter")
    expect(hop).to_be_focused()
    expect(hop).to_have_attribute("aria-expanded", "true")
    expect(page.locator("#partition-rows tr")).to_have_count(24)  # of both request topics
    expect(page.locator("#partition-rows")).to_contain_text("inventory.1")
    expect(page.locator("#processes")).to_contain_text("inventory.1")

    page.keyboard.press("Escape")
    expect(page.locator("#partitions")).to_be_hidden()

    choose_sale(page, sale)
    page.get_by_role("button", name="Pause").click()
    expect(notice(page)).to_contain_text(f"Sale {sale} is paused.")
    assert stack.query("SELECT state FROM inventory_sale WHERE id = %s", sale) == [("paused",)]
    expect(page.locator("#rates [data-moment*='sale paused']").first).to_be_attached()
    expect(page.locator("#events")).to_contain_text(f"sale paused · sale {sale} · olga")
    expect(page.locator(".top")).to_contain_text("paused")
    choose_sale(page, sale)
    page.get_by_role("button", name="Open", exact=True).click()
    expect(notice(page)).to_contain_text("is open.")
    assert stack.query("SELECT state FROM inventory_sale WHERE id = %s", sale) == [("open",)]
    page.get_by_role("link", name="Audit").click()
    expect(page.get_by_role("row", name=re.compile(f"olga.*sale paused.*sale {sale}"))).to_be_visible()

    page.goto(f"/console/trace?id={request}")
    expect(page.get_by_role("cell").filter(has_text=re.compile(r"purchase\.requests/\d+/\d+"))).to_be_visible()
    expect(page.get_by_role("cell", name=re.compile("decided RESERVED"))).to_be_visible()


def test_closing_a_sale_needs_a_confirmation(stack: Stack, visit: Open, password: str) -> None:
    sale = stack.create_sale(1)
    page = enter(visit, password)
    choose_sale(page, sale)
    page.once("dialog", lambda question: question.dismiss())
    page.get_by_role("button", name="Close", exact=True).click()
    assert stack.query("SELECT state FROM inventory_sale WHERE id = %s", sale) == [("open",)]
    page.once("dialog", lambda question: question.accept())
    page.get_by_role("button", name="Close", exact=True).click()
    expect(notice(page)).to_contain_text("is closed.")
    assert stack.query("SELECT state FROM inventory_sale WHERE id = %s", sale) == [("closed",)]


def test_a_consumer_is_switched_off_and_on(visit: Open, password: str) -> None:
    page = enter(visit, password)
    for press, still in (("Switch off", "notify.email"), ("Switch on", "–")):
        page.get_by_role("button", name="Consumers…").click()
        page.get_by_label("Consumer", exact=True).select_option("notify.email")
        page.get_by_role("button", name=press).click()
        expect(notice(page)).to_contain_text("Done.")
        expect(page.locator("#off")).to_have_text(still)


def test_a_killed_process_restarts(stack: Stack, visit: Open, password: str) -> None:
    page = enter(visit, password)
    tile = page.get_by_role("button", name=re.compile("^inventory.sweep"))
    tile.click()
    expect(page.get_by_role("dialog")).to_contain_text("nothing may be lost or oversold")
    page.keyboard.press("Escape")
    expect(tile).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="kill -9", exact=True).click()
    expect(notice(page)).to_contain_text("inventory.sweep killed.")
    expect(page.locator("#processes")).to_contain_text("inventory.sweepup · ↻ 1")
    expect(page.locator("#events")).to_contain_text("inventory.sweep was down for")


def test_shortcuts_open_dialogs_and_can_be_switched_off(visit: Open, password: str) -> None:
    page = enter(visit, password)
    expect(page.locator("[data-hop]").first).to_contain_text("/s")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keyboard shortcuts")
    page.get_by_label("use shortcuts of a single key").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("s")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Keyboard shortcuts").click()
    page.get_by_label("use shortcuts of a single key").check()
    page.keyboard.press("Escape")
    page.keyboard.press("s")
    expect(page.get_by_role("dialog")).to_contain_text("Operate a sale")
    page.keyboard.press("r")
    expect(page.get_by_role("dialog")).to_have_count(1)  # no shortcut while a dialog is open


def test_a_dialog_cannot_be_asked_for_before_the_page_can_open_it(visit: Open, password: str) -> None:
    page = enter(visit, password)
    slow: list[Route] = []
    page.route("**/dialogs*.js", lambda route: slow.append(route))
    page.goto("/console", wait_until="commit")
    button = page.get_by_role("button", name="Consumers…")
    expect(button).to_be_disabled()
    while not slow:  # until the page asks for the script
        page.wait_for_timeout(20)
    expect(button).to_be_disabled()
    for route in slow:
        route.continue_()
    button.click()
    expect(page.get_by_role("dialog")).to_contain_text("Pause a consumer")


def test_the_board_does_not_move_while_it_is_updated(visit: Open, password: str) -> None:
    page = enter(visit, password)
    expect(page.locator("#processes li").first).to_be_visible()
    expect(page.locator("#verdict")).to_have_text(re.compile("hold", re.I))
    page.evaluate(
        """window.shifted = 0; new PerformanceObserver((list) => {
          for (const each of list.getEntries()) window.shifted += each.value;
          document.body.dataset.shifted = window.shifted > 0.01;
        }).observe({ type: "layout-shift" })"""
    )
    for _ in range(8):
        page.wait_for_event("response", lambda answer: "/console/live" in answer.url)
    assert page.evaluate("window.shifted") < 0.01
    page.evaluate("document.querySelector('.top').style.marginBottom = '200px'")
    expect(page.locator("body")).to_have_attribute("data-shifted", "true")  # the control: a shift is noticed


def choose_sale(page: Page, sale: int) -> None:
    page.get_by_role("button", name="Sale…").click()
    page.get_by_label("Sale", exact=True).select_option(str(sale))


def notice(page: Page) -> Locator:
    """The result of the last operation, above the board."""
    return page.locator(".notice[role=status]")


def audited(page: Page, *rows: str) -> None:
    """The audit page shows each of these operations under the operator's name."""
    page.goto("/console/audit")
    for row in rows:
        expect(page.get_by_role("row", name=re.compile(f"olga {row}")).first).to_be_visible()


def test_the_stock_is_adjusted_and_an_impossible_adjustment_is_refused(
    stack: Stack, visit: Open, password: str
) -> None:
    sale = stack.create_sale(2)
    page = enter(visit, password)
    for units, text in (("3", "5 units are available now."), ("-6", "cannot remove 6 units")):
        choose_sale(page, sale)
        page.get_by_label("Units to add").fill(units)
        page.get_by_role("button", name="Adjust the stock").click()
        expect(notice(page)).to_contain_text(text)
    assert stack.query("SELECT available FROM inventory_stock WHERE sale_id = %s", sale) == [(5,)]
    audited(
        page,
        f"stock adjusted sale {sale} phone units=3 done",
        f"stock adjusted sale {sale} phone units=-6 .*Rejected: .*",
    )


def test_a_paid_order_is_refunded_once_and_its_unit_is_on_sale_again(stack: Stack, visit: Open, password: str) -> None:
    sale = stack.create_sale(1)
    buyer = Buyer(stack, "sorry")
    request = buyer.buy(sale)[1]["request_id"]
    order = buyer.wait_for(request, "AWAITING_PAYMENT")["order_id"]
    assert buyer.act(order, "pay")[0] < 300
    buyer.wait_for(request, "PAID")

    page = enter(visit, password)
    for text in ("Refunded. The money has been returned.", f"order {order} is REFUNDED"):
        page.get_by_role("button", name="Refund…").click()
        page.get_by_label("Order id").fill(order)
        page.get_by_label("return its units to the sale").check()
        page.locator("#because").fill("it was dented")
        page.once("dialog", lambda question: question.accept())
        page.get_by_role("button", name="Refund the order").click()
        expect(notice(page)).to_contain_text(text)
    [(state, units)] = stack.query(
        "SELECT state, count(*) OVER () FROM orders_payment WHERE order_id = %s AND state <> 'failed'", order
    )
    assert (state, units) == ("refunded", 1)
    stack.wait_until(
        lambda: stack.query("SELECT available, sold FROM inventory_stock WHERE sale_id = %s", sale) == [(1, 0)],
        "the unit to be for sale again",
    )
    audited(page, f"order refunded {order} .*because=it was dented.* done", f"order refunded {order} .*Rejected: .*")


def test_a_service_is_scaled_up_and_down(stack: Stack, visit: Open, password: str) -> None:
    page = enter(visit, password)
    for count in ("2", "1"):
        page.get_by_role("button", name=re.compile("^orders.1")).click()
        page.get_by_label("Processes of this service").fill(count)
        page.get_by_role("button", name="Scale").click()
        expect(notice(page)).to_contain_text("orders scaled.")
        second = page.locator("[data-process='orders.2']")
        if count == "2":
            expect(second).to_have_class("tile up")
        else:
            expect(second).to_have_count(0)
    audited(page, "service scaled orders count=2 done", "service scaled orders count=1 done")


def test_the_sale_continues_after_redis_is_emptied(stack: Stack, visit: Open, password: str) -> None:
    sale = stack.create_sale(1)
    page = enter(visit, password)
    page.get_by_role("button", name="Inject a fault…").click()
    page.once("dialog", lambda question: question.accept())
    page.get_by_role("button", name="Empty Redis").click()
    expect(notice(page)).to_contain_text("rebuilt from the ledger")
    buyer = Buyer(stack, "after")
    stack.wait_until(lambda: buyer.buy(sale)[0] == 202, "the gate to open again")
    buyer.wait_for(buyer.buy(sale)[1]["request_id"], "AWAITING_PAYMENT")
    audited(page, "Redis emptied redis .*done")


def test_the_board_says_when_it_gets_no_answer(stack: Stack, visit: Open, password: str) -> None:
    page = enter(visit, password)
    expect(page.locator("#verdict")).to_have_text(re.compile("hold", re.I))
    page.route("**/console/live*", lambda route: route.abort())
    expect(page.locator("#no-answer")).to_contain_text("No answer from the console for 3 s.")
    expect(page.locator("#verdict")).to_have_text(re.compile("No verdict"))
    page.unroute("**/console/live*")
    expect(page.locator("#no-answer")).to_be_hidden()
