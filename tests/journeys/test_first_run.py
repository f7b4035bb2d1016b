"""`seckill up` in an empty folder ends with an open sale; its output says where the shop is and how to sign in."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import pytest

from tests.conformance.peer import IS_KAFKA
from tests.journeys.stack import Buyer, Stack

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(IS_KAFKA, reason="the first run does not depend on the broker"),
]

# What the shop and a purchase need; messages and statistics are left out.
LEFT_OUT = ("notify.sms", "notify.email", "notify.push", "celery", "notify.sweep", "inventory.settlement", "reports")
SMALL = [part for name in LEFT_OUT for part in ("--scale", f"{name}=0")]


def address_of(output: str, name: str) -> str:
    found = re.search(rf"^{name}\s+(http://\S+)$", output, flags=re.MULTILINE)
    assert found is not None, output
    return found[1]


def read_page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as response:
        return str(response.read().decode())


def open_sales(stack: Stack) -> list[int]:
    status, body = stack.call("GET", "/sales")
    assert status == 200
    return [sale["id"] for sale in body["sales"]]


def test_a_new_stack_has_an_open_sale_and_a_second_start_does_not_make_another(tmp_path: Path) -> None:
    first = Stack(tmp_path / "stack", *SMALL, empty=False)
    try:
        first.start()
        output = first.output_text
        assert output.splitlines()[-1].startswith(f"up: {first.gateway}/")
        assert 'sale 1 "Gong": 500 of 500 units of phone left' in output
        assert "Gong" in read_page(address_of(output, "shop"))
        assert "seckill_" in read_page(address_of(output, "metrics"))
        assert "password" in read_page(address_of(output, "console")).lower(), "it asks the operator to sign in"
        assert re.search(r"operator may .* in /console, password \S+", output)
        assert "sign in with any name, e.g. ann" in output
        assert Buyer(first, "ann").buy(1)[0] == 202, "the sale is open"
    finally:
        first.stop()

    second = Stack(tmp_path / "stack", *SMALL, empty=False, ports=first.ports)
    try:
        second.start()
        assert open_sales(second) == [1]
        assert "sale 1 " in second.output_text
        assert "operator may" not in second.output_text, "a password is shown once, when the account is created"
        assert "seckill manage operator NAME" in second.output_text
    finally:
        second.stop()


def test_an_empty_stack_has_no_sale(tmp_path: Path) -> None:
    """The control: the sale comes from the first run and from nowhere else."""
    stack = Stack(tmp_path / "stack", *SMALL)
    try:
        stack.start()
        assert open_sales(stack) == []
        assert "shop" not in stack.output_text
    finally:
        stack.stop()
