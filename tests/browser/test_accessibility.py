"""No page has a serious finding of axe, on a phone and on a wide screen, in light and in dark."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open
from tests.browser.test_console import enter, password
from tests.browser.test_shop import open_sale, told
from tests.journeys.stack import Stack

__all__ = ["password"]

pytestmark = pytest.mark.timeout(180)


def findings(page: Page) -> list[str]:
    found: list[dict[str, Any]] = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


def test_the_check_finds_what_is_wrong(visit: Open) -> None:
    page = visit("/shop/sign-in")
    page.evaluate("document.querySelector('label').remove()")
    assert any(each.startswith("label") for each in findings(page))


def test_pages_of_the_shop(stack: Stack, visit: Open) -> None:
    sale = stack.create_sale(3)
    page = open_sale(visit, sale, "axe")
    looked_at = {"sale": findings(page)}
    page.get_by_role("button", name="Buy").click()
    expect(told(page, "Yours: pay within")).to_be_visible()
    looked_at["purchase"] = findings(page)
    page.emulate_media(color_scheme="dark")
    looked_at["purchase, dark"] = findings(page)
    for path in ("/", "/orders", "/shop/sign-in", "/nothing", "/api/docs"):
        page.goto(path)
        looked_at[path] = findings(page)
    page.goto("/orders")
    page.get_by_role("link", name="History").first.click()
    looked_at["order"] = findings(page)
    assert {path: found for path, found in looked_at.items() if found} == {}


def test_pages_of_the_console(stack: Stack, visit: Open, password: str) -> None:
    page = enter(visit, password)
    expect(page.locator("#hops tr")).to_have_count(7)
    expect(page.locator("#verdict")).not_to_have_text("–")
    looked_at = {"board": findings(page)}
    page.emulate_media(color_scheme="dark")
    looked_at["board, dark"] = findings(page)
    for path in ("/console/letters?all=1", "/console/trace?id=axe", "/console/reports", "/console/audit"):
        page.goto(path)
        looked_at[path] = findings(page)
    assert {path: found for path, found in looked_at.items() if found} == {}
