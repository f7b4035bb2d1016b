"""axe finds nothing serious on any page: phone and wide screen, light and dark."""

from __future__ import annotations

import re
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open
from tests.browser.test_console import enter, password
from tests.browser.test_shop import headline, open_sale, sign_in
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
    nobody = visit("/shop/sign-in?next=/orders")
    sign_in(nobody, "axe-without-orders")
    checked["no orders"] = findings(nobody)
    page.goto("/orders")
    page.get_by_role("link", name="Order details").first.click()
    checked["order"] = findings(page)
    assert {path: found for path, found in checked.items() if found} == {}


def test_the_consoles_pages_are_accessible(stack: Stack, visit: Open, password: str) -> None:
    page = enter(visit, password)
    expect(page.locator("#processes li").first).to_be_visible()
    expect(page.locator("#verdict")).not_to_have_text("–")
    checked = {"board": findings(page)}
    page.emulate_media(color_scheme="dark")
    checked["board, dark"] = findings(page)
    page.get_by_role("button", name=re.compile("^decide")).click()
    page.locator("details.judge summary").first.click()
    for name in ("d-sale", "d-refund", "d-consumers", "d-faults", "d-keys"):
        page.locator(f"[data-opens={name}]").click()
        checked[f"{name}, dark"] = findings(page)
        page.keyboard.press("Escape")
    page.set_viewport_size({"width": 390, "height": 844})
    checked["board, phone"] = findings(page)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.emulate_media(color_scheme="light")
    for path in ("/start", "/console/letters?all=1", "/console/trace?id=axe", "/console/reports", "/console/audit"):
        page.goto(path)
        checked[path] = findings(page)
    assert {path: found for path, found in checked.items() if found} == {}
