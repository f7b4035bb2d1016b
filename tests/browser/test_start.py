"""The front page in a browser: what it shows without a sale, a report or Locust, and what its buttons do."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from seckill.stack.services import ROOT
from tests.browser.conftest import Open
from tests.browser.test_console import audited, enter, notice, password
from tests.journeys.stack import Stack, clean_environment

__all__ = ["password"]

pytestmark = pytest.mark.timeout(180)

PURCHASES = "POST /sales/[id]/purchases"


def test_a_visitor_sees_what_runs_and_is_asked_to_sign_in(stack: Stack, visit: Open) -> None:
    page = visit("/start", phone=False)
    expect(page.get_by_role("region", name="What runs")).to_contain_text(re.compile(r"\d+ of \d+ processes are up"))
    expect(page.get_by_role("region", name="Start a rush")).to_contain_text("make rush")
    expect(page.get_by_role("region", name="Break something")).to_contain_text("Sign in to break something")
    page.get_by_role("link", name="Sign in to make a report").click()
    expect(page.get_by_role("heading", name="Console: sign in")).to_be_visible()


def test_something_is_broken_from_the_front_page_after_a_question(visit: Open, password: str) -> None:
    page = enter(visit, password, "/console/login?next=/start")
    page.get_by_label("Kill all orders consumers").check()
    page.once("dialog", lambda question: question.dismiss())
    page.get_by_role("button", name="Break it now").click()
    expect(page.get_by_role("heading", name="Break something")).to_be_visible()
    page.once("dialog", lambda question: question.accept())
    page.get_by_role("button", name="Break it now").click()
    expect(notice(page)).to_contain_text("Kill all orders consumers")
    expect(page.locator("#events")).to_contain_text("process killed · orders · olga")


def test_a_rush_from_the_front_page_is_counted_alike_by_locust_and_the_console(
    stack: Stack, visit: Open, password: str
) -> None:
    sale = stack.create_sale(3)
    stack.create_sale(3, opens_in=3000)  # newer, but not open yet, so it is not proposed
    page = enter(visit, password, "/console/login?next=/start")
    before = console_totals(page)["offered"]
    with locust(stack) as address:
        page.goto("/start")
        page.get_by_role("link", name="Open Locust").click()
        page.get_by_role("button", name="Custom parameters").click()
        expect(page.locator("input[name=sale]")).to_have_value(str(sale))
        expect(page.locator("input[name=userCount]")).to_have_value("200")

        page.goto(f"{stack.gateway}/start")
        page.get_by_label("Buyers", exact=True).fill("8")
        page.get_by_label("Seconds", exact=True).fill("20")
        page.get_by_role("button", name=f"Start a rush on sale {sale}").click()
        expect(notice(page)).to_contain_text(f"8 buyers are coming to sale {sale} for 20 seconds.")
        page.goto("/start")
        expect(page.get_by_role("button", name="A rush is running")).to_be_disabled()
        stack.wait_until(lambda: locust_stats(address)["state"] == "stopped", "Locust to finish")
        [sent] = [each["num_requests"] for each in locust_stats(address)["stats"] if each["name"] == PURCHASES]

    assert sent > 8
    page.goto("/console")
    stack.wait_until(lambda: console_totals(page)["offered"] - before >= sent, "the console to have counted")
    assert console_totals(page)["offered"] - before == sent
    audited(page, f"rush started sale {sale} buyers=8 seconds=20 done")


def console_totals(page: Page) -> dict[str, int]:
    """As the board loads them. Empty until the first reading, so it asks until there is one."""
    for _ in range(100):
        totals: dict[str, int] | None = page.request.get("/console/live").json()["totals"]
        if totals:
            return totals
        page.wait_for_timeout(100)
    raise AssertionError("the console counts nothing")


def locust_stats(address: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{address}/stats/requests", timeout=10) as answer:
        stats: dict[str, Any] = json.load(answer)
    return stats


@contextmanager
def locust(stack: Stack) -> Iterator[str]:
    """As `make rush` starts it; it finds the gateway through the folder of evidence."""
    address = str(stack.started_with["SECKILL_LOCUST_URL"])
    command = [
        sys.executable, "-m", "locust", "-f", str(ROOT / "loadtest" / "locustfile.py"), "--evidence",
        str(stack.evidence), "--web-port", str(urlsplit(address).port), "--stop-timeout", "30", "--patience", "5",
    ]  # fmt: skip
    output = Path(stack.folder) / "locust.out"
    with output.open("wb") as told:
        process = subprocess.Popen(
            command, stdout=told, stderr=told, stdin=subprocess.DEVNULL, env=clean_environment(), start_new_session=True
        )
    try:
        stack.wait_until(lambda: is_answering(address), "Locust's page")
        yield address
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def is_answering(address: str) -> bool:
    try:
        return bool(locust_stats(address))
    except OSError:
        return False
