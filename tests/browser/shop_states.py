"""`python -m tests.browser.shop_states`: takes pictures of the shop in its states, for docs/pictures/shop.

A real stack goes through all of them. Staged are a consumer that is stopped, so that a queue forms, a deadline that is
moved, and a browser that is cut off. Takes about two minutes; needs chromium. `--all` takes each state in four views:
both sizes, both themes and both languages occur in two of them.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from rich.console import Console

from tests.browser.conftest import SCALE
from tests.journeys.stack import Buyer, Stack

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures" / "shop"
SIZES = {"phone": (390, 844), "wide": (1440, 900)}
ARTICLES = (("Aurora phone", 40, "3999"), ("Pulse watch", 20, "899.50"), ("Hush headphones", 3, "499"))


class View(NamedTuple):
    size: str
    theme: str
    language: str

    @property
    def name(self) -> str:
        return "-".join(self)


VIEWS = (
    View("phone", "light", "en"),
    View("phone", "dark", "zh"),
    View("wide", "light", "zh"),
    View("wide", "dark", "en"),
)
KEPT = {
    "upcoming": VIEWS[2], "open": VIEWS[0], "queued": VIEWS[1], "reserved": VIEWS[0], "sold-out": VIEWS[3],
    "offline": VIEWS[0], "orders": VIEWS[1],
}  # fmt: skip
"""The states in docs/pictures/shop, each in one view."""


class State(NamedTuple):
    """A page that is to be photographed now."""

    name: str
    path: str
    user: str = "ann"
    is_offline: bool = False


class Photographer:
    def __init__(self, stack: Stack, browser: Browser, folder: Path, *, everything: bool, whole: bool) -> None:
        self._stack, self._browser, self._folder = stack, browser, folder
        self._everything, self._whole = everything, whole
        self._contexts: dict[tuple[View, str], BrowserContext] = {}

    def take(self, state: State) -> None:
        for view in VIEWS:
            if not self._everything and KEPT.get(state.name) != view:
                continue
            page = self.open(view, state.user, state.path)
            if state.is_offline:
                page.context.set_offline(True)
            page.wait_for_timeout(700)
            page.screenshot(path=self._folder / f"{state.name}-{view.name}.png", full_page=self._whole)
            page.context.set_offline(False)
            page.close()

    def open(self, view: View, user: str, path: str) -> Page:
        context = self._contexts.get((view, user)) or self._sign_in(view, user)
        page = context.new_page()
        page.goto(path)
        return page

    def _sign_in(self, view: View, user: str) -> BrowserContext:
        width, height = SIZES[view.size]
        context = self._browser.new_context(
            base_url=self._stack.gateway, viewport={"width": width, "height": height},
            color_scheme="dark" if view.theme == "dark" else "light",
            locale={"en": "en-GB", "zh": "zh-CN"}[view.language],
            timezone_id={"en": "Europe/London", "zh": "Asia/Shanghai"}[view.language],
        )  # fmt: skip
        if user:
            page = context.new_page()
            page.goto("/shop/sign-in")
            page.locator("#user").fill(user)
            page.locator("main button").click()
            page.wait_for_url("**/")
            page.close()
        self._contexts[view, user] = context
        return context


class Operator:
    """Creates sales with the console's form."""

    def __init__(self, stack: Stack, browser: Browser) -> None:
        self._stack = stack
        password = stack.run_command("manage", "operator", "olga").split()[-1]
        width, height = SIZES["wide"]
        self.context = browser.new_context(
            base_url=stack.gateway, locale="en", timezone_id="Asia/Shanghai",
            viewport={"width": width, "height": height},
        )  # fmt: skip
        self.page = self.context.new_page()
        self.page.goto("/console/login")
        self.page.get_by_label("Name").fill("olga")
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("main").get_by_role("button", name="Sign in").click()
        self.page.wait_for_url("**/console")

    def create_sale(self, name: str, articles: tuple[tuple[str, int, str], ...], opens_at: str = "") -> int:
        self.fill(name, articles, opens_at)
        self.page.get_by_role("button", name="Create the sale").click()
        sale = int(re.findall(r"Sale (\d+) was created", self.page.get_by_role("status").first.inner_text())[0])
        self._stack.wait_until(lambda: self._stack.call("GET", f"/sales/{sale}")[0] == 200, "the sale to be known")
        return sale

    def fill(self, name: str, articles: tuple[tuple[str, int, str], ...], opens_at: str = "") -> None:
        page = self.page
        page.goto("/console/sales/new")
        for _ in articles[1:]:
            page.get_by_role("button", name="Another article").click()
        page.get_by_label("Name of the sale").fill(name)
        page.get_by_label("Opens at").fill(opens_at)
        for number, (sku, units, price) in enumerate(articles):
            row = page.locator("fieldset").nth(number)
            row.get_by_label("Article", exact=True).fill(sku)
            row.get_by_label("Units", exact=True).fill(str(units))
            row.get_by_label("Price, in ¥").fill(price)


def states(stack: Stack, browser: Browser, folder: Path) -> Iterator[State]:
    yield State("nothing", "/")
    operator = Operator(stack, browser)
    operator.fill("Midnight sale", (ARTICLES[0], (ARTICLES[1][0], 0, "899.505")), "2020-01-01T00:00")
    operator.page.get_by_role("button", name="Create the sale").click()
    operator.page.screenshot(path=folder / "create.png")
    tomorrow = datetime.now(ZoneInfo("Asia/Shanghai")) + timedelta(days=1)
    upcoming = operator.create_sale("Midnight sale", ARTICLES, f"{tomorrow:%Y-%m-%d}T23:59")
    yield State("upcoming", f"/shop/{upcoming}")
    yield State("signed-out", f"/shop/{upcoming}", user="")

    sale = operator.create_sale("Midnight sale", ARTICLES)
    early = [Buyer(stack, f"early-{number}") for number in range(14)]
    for number, buyer in enumerate(early):
        sku = ARTICLES[2 if number < 3 else number % 2][0]
        held = buyer.wait_for(buyer.buy(sale, sku=sku)[1]["request_id"], "AWAITING_PAYMENT")
        if number > 5:
            buyer.act(held["order_id"], "pay")
    yield State("open", f"/shop/{sale}")
    yield State("orders-empty", "/orders", user="nora")

    stack.run_command("stop", "inventory")
    for number in range(24):
        Buyer(stack, f"crowd-{number}").buy(sale, sku=ARTICLES[0][0])
    page = Photographer(stack, browser, folder, everything=False, whole=False).open(VIEWS[0], "ann", f"/shop/{sale}")
    page.locator(f"[data-article='{ARTICLES[1][0]}'] form.buy button").click()
    page.locator("[data-ahead-words]").wait_for()
    queued = page.url.removeprefix(stack.gateway)
    yield State("queued", queued)
    yield State("offline", queued, is_offline=True)
    yield State("sale-while-queued", f"/shop/{sale}")
    yield State("sale-offline", f"/shop/{sale}", user="nora", is_offline=True)
    stack.run_command("start", "inventory")
    page.get_by_role("button", name="Pay").wait_for(timeout=60_000)
    yield State("reserved", queued)
    page.get_by_role("button", name="Pay").click()
    page.locator(".big", has_text="Paid").wait_for(timeout=30_000)
    yield State("paid", queued)

    small = operator.create_sale("Last call", (("Trail shoe", 1, "259"),))
    holder = Buyer(stack, "holder")
    held = holder.wait_for(holder.buy(small)[1]["request_id"], "AWAITING_PAYMENT")
    yield State("all-held", f"/shop/{small}")
    loser = Buyer(stack, "ann")
    refused = loser.buy(small)[1]["request_id"]
    loser.wait_for(refused, "SOLD_OUT")
    yield State("refused", f"/p/{refused}?sale={small}")
    holder.act(held["order_id"], "pay")
    holder.wait_for(held["request_id"], "PAID")
    yield State("sold-out", f"/shop/{small}")
    stack.run_command("sale", "close", str(small))
    yield State("closed", f"/shop/{small}")

    other = operator.create_sale("Morning sale", (("Tea cup", 5, "39.9"),))
    request = loser.buy(other)[1]["request_id"]
    order = loser.wait_for(request, "AWAITING_PAYMENT")["order_id"]
    stack.query("UPDATE orders_order SET pay_before = now() - interval '1 second' WHERE id = %s RETURNING id", order)
    loser.wait_for(request, "EXPIRED")
    yield State("expired", f"/p/{request}?sale={other}")
    yield State("orders", "/orders")
    yield State("order", f"/orders/{order}")
    yield State("not-found", "/nothing")
    yield State("sign-in", "/shop/sign-in", user="")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.browser.shop_states", description=__doc__)
    parser.add_argument("--to", type=Path, default=PICTURES, help="folder for the pictures")
    parser.add_argument("--all", action="store_true", help="every state in every view")
    parser.add_argument("--whole", action="store_true", help="the whole page instead of what a screen shows")
    chosen = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        print("shop_states: there is no chromium (Debian: apt-get install chromium)", file=sys.stderr)
        return 1
    chosen.to.mkdir(parents=True, exist_ok=True)
    tell = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        stack = Stack(Path(folder) / "stack", *(part for scale in SCALE for part in ("--scale", scale)))
        stack.start()
        try:
            photographer = Photographer(stack, browser, chosen.to, everything=chosen.all, whole=chosen.whole)
            for state in states(stack, browser, chosen.to):
                photographer.take(state)
                tell.print(state.name)
        finally:
            browser.close()
            stack.stop()
    for path in sorted(chosen.to.glob("*.png")):
        print(f"{path.name}  {path.stat().st_size // 1024} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
