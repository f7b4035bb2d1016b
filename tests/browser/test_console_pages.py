"""The console's other pages in a browser: dead letters, reports, and the trace of a request."""

from __future__ import annotations

import re

import pytest
from kafka import KafkaProducer
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.test_console import audited, enter, password
from tests.journeys.stack import Buyer, Stack

__all__ = ["password"]

pytestmark = pytest.mark.timeout(180)


def test_a_dead_letter_is_shown_tried_and_discarded(stack: Stack, visit: Open, password: str) -> None:
    producer = KafkaProducer(bootstrap_servers=f"127.0.0.1:{stack.ports['broker']}")
    producer.send("purchase.requests", key=b"poison", value=b"<no envelope>").get(20)
    producer.close()
    stack.wait_until(lambda: stack.query("SELECT id FROM streams_dead_letter"), "the record to die")

    page = enter(visit, password, "/console/letters")
    page.get_by_role("cell", name=re.compile("purchase.requests-")).wait_for()
    page.locator("tbody a").first.click()
    expect(page.get_by_text("<no envelope>")).to_be_visible()
    expect(page.get_by_text("Dry run:")).to_contain_text("not an envelope")
    page.get_by_role("button", name="Replay it").click()
    expect(page.get_by_role("status")).to_contain_text("not an envelope")
    page.get_by_label("Reason").fill("a test")
    page.get_by_role("button", name="Discard it").click()
    expect(page.get_by_role("status")).to_contain_text("Discarded.")
    assert stack.query("SELECT state, note FROM streams_dead_letter") == [("discarded", "a test")]


def test_a_report_is_made_in_the_background(stack: Stack, visit: Open, password: str) -> None:
    buyer = Buyer(stack, "traced")
    buyer.wait_for(buyer.buy(stack.create_sale(1))[1]["request_id"], "AWAITING_PAYMENT")
    page = enter(visit, password, "/console/reports")
    page.get_by_role("button", name="Create a report").click()
    expect(page.get_by_text("This page refreshes itself.")).to_be_visible()

    page.get_by_role("link", name="Trace").click()
    page.get_by_label("Id of a request").fill("traced")
    page.get_by_role("button", name="Trace it").click()
    expect(page.get_by_role("cell", name=re.compile("decided RESERVED"))).to_be_visible()

    page.get_by_role("link", name="Reports").click()
    page.get_by_role("link", name="Open report").click(timeout=90_000)  # the page refreshes itself
    expect(page.get_by_role("heading", name=re.compile("invariants", re.I)).first).to_be_visible()
    audited(page, r"report requested report \d+ .*done")
