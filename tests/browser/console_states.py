"""`python -m tests.browser.console_states`: takes pictures of the console in ten states, on a wide screen and a phone,
and of its replicas during a fail-over.

A real stack of three brokers goes through all of them, with a real crowd; nothing is mocked. Staged are only the kills,
one stock row that is made wrong and put right again, and a browser that is cut off from the server. Takes about five
minutes; needs chromium. `--data FOLDER` uses a stack of three brokers that already runs there and has no sale.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from playwright.sync_api import Locator, Page, ViewportSize, sync_playwright
from rich.console import Console

from seckill.stack.child_processes import free_ports
from seckill.stack.services import Ports
from seckill.stack.stack_process import StackProcess, clean_environment

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures" / "console"
BUYERS, UNITS = 2500, 200
SIZES = {"wide": ViewportSize(width=1440, height=900), "phone": ViewportSize(width=390, height=844)}
LIVE = "**/console/live*"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.browser.console_states", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of a running stack of three brokers without a sale")
    parser.add_argument("--to", type=Path, default=PICTURES, help="folder for the pictures")
    parser.add_argument("--whole", action="store_true", help="the whole page instead of what a screen shows")
    parser.add_argument("--dark", action="store_true")
    chosen = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        print("console_states: there is no chromium (Debian: apt-get install chromium)", file=sys.stderr)
        return 1
    chosen.to.mkdir(parents=True, exist_ok=True)
    tell = Console(stderr=True)
    with sync_playwright() as playwright, ExitStack() as cleanup:
        stack = cleanup.enter_context(_stack(chosen.data))
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        cleanup.callback(browser.close)
        name = f"states-{int(time.time())}"
        password = stack.operate("manage", "operator", name).split()[-1]
        photographer = Photographer(chosen.to, whole=chosen.whole)
        for screen, size in SIZES.items():
            context = browser.new_context(
                base_url=stack.gateway, viewport=size, locale="en", color_scheme="dark" if chosen.dark else "light"
            )
            page = context.new_page()
            page.goto("/console")
            page.get_by_label("Name").fill(name)
            page.get_by_label("Password").fill(password)
            page.get_by_role("main").get_by_role("button", name="Sign in").click()
            photographer.pages[screen] = page
        for state in _states(stack, photographer):
            tell.print(state)
    for path in sorted(chosen.to.glob("*.png")):
        print(f"{path.name}  {path.stat().st_size // 1024} KB")
    return 0


class Photographer:
    """The same console, open on both screens all the time."""

    def __init__(self, folder: Path, *, whole: bool) -> None:
        self.pages: dict[str, Page] = {}
        self._folder, self._whole, self._number = folder, whole, 0

    def take(self, state: str) -> str:
        self._number += 1
        for size, page in self.pages.items():
            path = self._folder / f"{self._number:02}-{state}-{size}.png"
            page.evaluate("scrollTo(0, 0)")
            page.screenshot(path=path, full_page=self._whole)
        return state

    def take_part(self, state: str, part: Locator) -> str:
        part.screenshot(path=self._folder / f"{state}.png")
        return state

    def wait(self, seconds: float) -> None:
        for page in self.pages.values():
            page.wait_for_timeout(seconds * 1000 / len(self.pages))


def _states(stack: StackProcess, photographer: Photographer) -> Iterator[str]:
    wide = photographer.pages["wide"]
    wide.locator("#no-sale").wait_for()
    photographer.wait(2)
    yield photographer.take("no-sale")

    sale = stack.create_sale(UNITS, opens_in=25)
    wide.locator("#sale-state.later").wait_for()
    photographer.wait(1)
    yield photographer.take("scheduled")

    wide.locator("#sale-state.good").wait_for()
    log = stack.evidence / f"states-{int(time.time())}.jsonl"
    command = [
        sys.executable, "-m", "loadtest.rush", "--url", stack.gateway, "--sale", str(sale), "--buyers", str(BUYERS),
        "--over", "12", "--log", str(log),
    ]  # fmt: skip
    with subprocess.Popen(
        command, env=clean_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as rush:
        _wait(photographer, lambda: _now(wide, "acknowledged") > 20, 30)
        photographer.wait(1)
        yield photographer.take("rush-begins")

        _wait(photographer, lambda: _now(wide, "backlog") > 300, 6)
        yield photographer.take("peak")

        for name in ("inventory", "orders"):
            stack.send("kill", name=name)
        wide.locator("#processes .tile.bad").first.wait_for()
        photographer.wait(0.5)
        yield photographer.take("consumers-killed")

        photographer.wait(4)
        _wait(photographer, lambda: wide.locator("[data-units=available]").inner_text() == "0", 40)
        photographer.wait(1)
        yield photographer.take("sold-out-draining")
        while rush.poll() is None:
            photographer.wait(0.5)

    _wait(photographer, lambda: "flight" not in wide.locator("#verdict").inner_text(), 120)
    photographer.wait(2)
    yield photographer.take("all-quiet")

    stack.send("stop", name="mqcore.2")
    photographer.wait(6)
    yield photographer.take("broker-down")
    stack.send("start", name="mqcore.2")
    yield from _failover(stack, photographer)

    with psycopg.connect(stack.addresses()["SECKILL_DATABASE_URL"], autocommit=True) as database:
        change = "UPDATE inventory_stock SET available = available + %s WHERE sale_id = %s"
        database.execute(change, [2, sale])
        try:
            wide.locator("#verdict.bad").wait_for(timeout=60_000)
            photographer.wait(1)
            yield photographer.take("invariant-violated")
        finally:
            database.execute(change, [-2, sale])

    for page in photographer.pages.values():
        page.route(LIVE, lambda route: route.abort())
    photographer.wait(12)
    yield photographer.take("no-answer")


def _failover(stack: StackProcess, photographer: Photographer) -> Iterator[str]:
    """The replicas before, during and after the loss of a leader."""
    wide = photographer.pages["wide"]
    panel = wide.locator("#replica-details")
    panel.locator("summary").click()

    def leaders() -> list[str]:
        return panel.locator("#replicas tr td:nth-child(2)").all_inner_texts()

    def are_all_in_sync() -> bool:
        in_sync = panel.locator("#replicas tr td:nth-child(4)").all_inner_texts()
        return bool(in_sync) and all(len(each.split(",")) == 3 for each in in_sync)

    _wait(photographer, are_all_in_sync, 60)
    yield photographer.take_part("replicas-1-in-sync", panel)
    leader = leaders()[0]
    stack.send("stop", name=f"mqcore.{leader}")
    _wait(photographer, lambda: leader not in leaders(), 30)
    photographer.wait(1)
    yield photographer.take_part("replicas-2-leader-lost", panel)
    stack.send("start", name=f"mqcore.{leader}")
    _wait(photographer, are_all_in_sync, 60)
    photographer.wait(1)
    yield photographer.take_part("replicas-3-caught-up", panel)
    panel.locator("summary").click()


def _now(page: Page, name: str) -> float:
    text = page.locator(f"#now [data-now={name}]").inner_text()
    digits = "".join(each for each in text if each.isdigit())
    return float(digits or 0)


def _wait(photographer: Photographer, holds: Callable[[], bool], seconds_max: float) -> None:
    """Until it holds or the time is over; the pages keep updating meanwhile."""
    until = time.monotonic() + seconds_max
    while not holds() and time.monotonic() < until:
        photographer.wait(0.2)


@contextmanager
def _stack(folder: Path | None) -> Iterator[StackProcess]:
    if folder is not None:
        addresses = json.loads((folder / "run" / "environment.json").read_text())
        gateway = urlsplit(addresses["SECKILL_PUBLIC_URL"]).port
        yield StackProcess(folder, Ports(gateway=gateway or 8000), brokers=3)
        return
    names = list(Ports().all())
    with tempfile.TemporaryDirectory() as fresh:
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        stack = StackProcess(Path(fresh) / "stack", Ports(**ports), brokers=3)
        try:
            stack.start()
            yield stack
        finally:
            stack.stop()


if __name__ == "__main__":
    sys.exit(main())
