"""axe finds nothing serious on any page: phone and wide screen, light and dark."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open
from tests.browser.test_console import enter, password
from tests.browser.test_shop import headline, open_sale
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


def test_the_accessibility_check_finds_a_missing_label(visit: Open) -> None:
    page = visit("/shop/sign-in")
    page.evaluate("document.querySelector('label').remove()")
    assert any(each.startswith("label") for each in findings(page))


def test_the_shops_pages_are_accessible(stack: Stack, visit: Open) -> None:
    sale = stack.create_sale(3)
    page = open_sale(visit, sale, "axe")
    checked = {"sale": findings(page)}
    page.get_by_role("button", name="Buy").click()
    expect(headline(page, "Reserved for you: pay within")).to_be_visible()
    checked["purchase"] = findings(page)
    page.emulate_media(color_scheme="dark")
    checked["purchase, dark"] = findings(page)
    for path in ("/", "/orders", "/shop/sign-in", "/nothing", "/api/docs"):
        page.goto(path)
        checked[path] = findings(page)
    page.goto("/orders")
    page.get_by_role("link", name="Order details").first.click()
    checked["order"] = findings(page)
    assert {path: found for path, found in checked.items() if found} == {}


def test_the_consoles_pages_are_accessible(stack: Stack, visit: Open, password: str) -> None:
    page = enter(visit, password)
    expect(page.locator("#hops tr")).to_have_count(7)
    expect(page.locator("#verdict")).not_to_have_text("–")
    checked = {"board": findings(page)}
    page.emulate_media(color_scheme="dark")
    checked["board, dark"] = findings(page)
    for path in ("/console/letters?all=1", "/console/trace?id=axe", "/console/reports", "/console/audit"):
        page.goto(path)
        checked[path] = findings(page)
    assert {path: found for path, found in checked.items() if found} == {}
