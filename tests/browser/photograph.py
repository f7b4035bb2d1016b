"""`python -m tests.browser.photograph`: takes the pictures in docs/pictures during a rush on its own stack.

Takes some minutes; needs chromium. Only the crowd and the kill are staged.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright
from rich.console import Console

from seckill.stack.stack_process import clean_environment
from tests.journeys.stack import Stack

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
BUYERS, UNITS = 2500, 120
WIDE = {"width": 1360, "height": 860}


def main() -> int:
    chromium = shutil.which("chromium")
    if chromium is None:
        print("photograph: there is no chromium (Debian: apt-get install chromium)", file=sys.stderr)
        return 1
    PICTURES.mkdir(exist_ok=True)
    tell = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        stack = Stack(Path(folder) / "stack")
        with tell.status("starting a stack"):
            stack.start()
        try:
            with tell.status("a rush, and a kill in the middle") as status:
                page = _console(stack, browser)
                status.update("the report")
                _report(stack, page)
        finally:
            stack.stop()
            browser.close()
    for path in sorted(PICTURES.glob("*.png")):
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size // 1024} KB")
    return 0


def _open(stack: Stack, browser: Browser, path: str, size: dict[str, int]) -> Page:
    context = browser.new_context(
        base_url=f"http://127.0.0.1:{stack.ports['gateway']}",
        viewport={"width": size["width"], "height": size["height"]},
        locale="en",
    )
    page = context.new_page()
    page.goto(path)
    return page


def _console(stack: Stack, browser: Browser) -> Page:
    sale = stack.create_sale(UNITS)
    password = stack.run_command("manage", "operator", "olga").split()[-1]
    page = _open(stack, browser, "/console", WIDE)
    page.get_by_label("Name").fill("olga")
    page.get_by_label("Password").fill(password)
    page.get_by_role("main").get_by_role("button", name="Sign in").click()
    log = stack.folder / "evidence" / "rush.jsonl"
    command = [
        sys.executable, "-m", "loadtest.rush", "--url", f"http://127.0.0.1:{stack.ports['gateway']}", "--sale",
        str(sale), "--buyers", str(BUYERS), "--log", str(log),
    ]  # fmt: skip
    with subprocess.Popen(
        command, env=clean_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as rush:
        page.wait_for_timeout(12_000)
        stack.run_command("kill", "inventory")
        page.wait_for_timeout(20_000)
        page.screenshot(path=PICTURES / "console.png")
        while rush.poll() is None:
            page.wait_for_timeout(500)  # the board keeps updating meanwhile
    return page


def _report(stack: Stack, page: Page) -> None:
    """Made by the console, once all messages have been delivered."""
    due = "SELECT count(*) FROM notifications_delivery WHERE state = 'due'"
    stack.wait_until(lambda: stack.query(due) == [(0,)], "all messages to be delivered", 180)
    page.goto("/console/reports")
    page.get_by_role("button", name="Create a report").click()
    page.get_by_role("link", name="Open report").click(timeout=120_000)
    page.wait_for_load_state()
    page.screenshot(path=PICTURES / "report.png")


if __name__ == "__main__":
    sys.exit(main())
