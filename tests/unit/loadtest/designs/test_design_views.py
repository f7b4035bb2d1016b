"""The HTTP API of a design answers like the product's, on Django alone."""

from __future__ import annotations

import importlib
import json
from types import ModuleType
from uuid import uuid4

import pytest
from django.test import RequestFactory
from django.urls import resolve

from gateway import outcomes, sales
from inventory.events import SaleView
from seckill.web import tokens

VIEW = SaleView(7, "Gong", "phone", 9900, 1, 3, 3, 0, 0, 1, "open", 0, 10**15)


@pytest.fixture
def urls(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("COMPARED_DESIGN", "naive")
    return importlib.import_module("loadtest.designs.urls")


@pytest.mark.parametrize("path", ["/readyz", "/api/v1/sessions", "/api/v1/sales/7/ticket", "/api/v1/sales/7/purchases"])
def test_the_addresses_that_the_crowd_uses_exist(urls: ModuleType, path: str) -> None:
    assert resolve(path, urls.__name__).route


def test_sales_look_as_they_do_in_the_product(urls: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sales, "list_sales", lambda: [VIEW])
    monkeypatch.setattr(sales, "find_sale", lambda sale_id: VIEW)
    request = RequestFactory().get("/")
    [listed] = json.loads(urls.list_sales(request).content)["sales"]
    one = json.loads(urls.one_sale(request, 7).content)
    assert listed == {name: value for name, value in one.items() if name != "now_ms"}
    assert (one["id"], one["available"], one["availability"]) == (7, 3, "available")


def test_an_undecided_purchase_is_queued(urls: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "find_outcomes", lambda request_ids: {})
    request = RequestFactory().get("/", headers={"Authorization": f"Bearer {tokens.issue_token('anna')}"})
    assert json.loads(urls.purchase_status(request, uuid4()).content)["state"] == "QUEUED"
