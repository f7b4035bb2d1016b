"""What stays on the loop: nothing that could ask database or Redis."""

from __future__ import annotations

import time

import pytest
from gateway.staying import stays

from gateway import sales


@pytest.fixture(autouse=True)
def snapshot(monkeypatch: pytest.MonkeyPatch) -> sales._Snapshot:
    made = sales._Snapshot(taken_at=time.monotonic())
    monkeypatch.setattr(sales, "_snapshot", made)
    return made


@pytest.mark.parametrize("path", ["/api/v1/sales", "/api/v1/sales/17", "/livez"])
def test_reading_sales_that_are_kept_stays_and_so_does_being_alive(path: str) -> None:
    assert stays("GET", path)
    assert not stays("POST", path)


def test_only_the_post_of_a_purchase_stays() -> None:
    assert stays("POST", "/api/v1/sales/1/purchases")
    assert not stays("GET", "/api/v1/sales/1/purchases")
    assert not stays("HEAD", "/api/v1/sales/1/purchases")


@pytest.mark.parametrize(
    "path",
    ["/", "/readyz", "/metrics", "/buy", "/api/v1/sales/1/ticket", "/api/v1/sessions", "/api/v1/purchases/1",
     "/api/v1/sales/1/purchases/", "/api/v1/sales/1/purchases\n", "/api/v1/sales/١", "/api/v1/sales/1/x/purchases"],
)  # fmt: skip
def test_everything_else_gets_a_thread(path: str) -> None:
    assert not stays("GET", path)
    assert not stays("POST", path)


def test_sales_that_may_have_to_be_asked_for_do_not_stay(snapshot: sales._Snapshot) -> None:
    snapshot.taken_at = time.monotonic() - sales.FRESH_S + sales.REFRESH_INTERVAL_S / 2
    assert not stays("GET", "/api/v1/sales")
    assert stays("POST", "/api/v1/sales/1/purchases")


def test_sales_are_kept_while_they_are_asked_for_and_not_after_a_quiet_hour(snapshot: sales._Snapshot) -> None:
    """Who comes first then looks himself: if somebody else did, he would be shown what was an hour ago."""
    sales._is_wanted.clear()
    snapshot.taken_at = time.monotonic() - sales.FRESH_S
    assert not stays("GET", "/api/v1/sales")
    assert not sales._is_wanted.is_set()
    snapshot.taken_at = time.monotonic()
    assert stays("GET", "/api/v1/sales")
    assert sales._is_wanted.is_set()
