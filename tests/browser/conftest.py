"""A browser in front of a whole stack. All tests of this folder share one stack; each test has its own browser and
cookies."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from seckill.stack.child_processes import free_ports
from tests.journeys.stack import Stack

LEFT_OUT = ("notify.sms", "notify.email", "notify.push", "celery", "notify.sweep")
ONE = ("inventory", "orders")
SCALE = [f"{name}=0" for name in LEFT_OUT] + [f"{name}=1" for name in ONE]
PATIENCE_MS = 20_000

Open = Callable[..., Page]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser" in item.nodeid:
            item.add_marker(pytest.mark.needs("chromium"))
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    [locust] = free_ports(1)  # a test of the front page starts Locust there
    stack = Stack(
        tmp_path_factory.mktemp("stack"),
        *(part for scale in SCALE for part in ("--scale", scale)),
        SECKILL_LOCUST_URL=f"http://127.0.0.1:{locust}",
    )
    stack.start()
    yield stack
    assert stack.stop() == 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One per file, because Playwright keeps an event loop running on this thread while the browser is open."""
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        # Chromium's sandbox needs rights that a CI container lacks, and it opens only our own pages.
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(stack: Stack, browser: Browser) -> Iterator[Open]:
    """Opens a page of the stack in a new browser: `visit("/", scripts=False)`."""
    contexts: list[BrowserContext] = []

    def visit(
        path: str, *, scripts: bool = True, language: str = "en", phone: bool = True, zone: str = "Asia/Shanghai"
    ) -> Page:
        context = browser.new_context(
            base_url=f"http://127.0.0.1:{stack.ports['gateway']}",
            java_script_enabled=scripts,
            locale=language,
            timezone_id=zone,
            viewport={"width": 390, "height": 844} if phone else {"width": 1440, "height": 900},
        )
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
        page.wrong = wrong  # type: ignore[attr-defined]
        page.goto(path)
        return page

    yield visit
    said = [text for context in contexts for page in context.pages for text in getattr(page, "wrong", ())]
    for context in contexts:
        context.close()
    assert said == [], "scripts failed or violated the page's policy"
