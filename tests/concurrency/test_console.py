"""The console in front of a real database: who may enter, what is written down, what is refused, what is kept."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from inventory import operating
from inventory.models import Sale, Stock
from seckill.audit.models import Entry
from seckill.console import counting, reports, tracing
from seckill.console.operating import FAULTS
from seckill.console.permissions import Power, grant, powers_of

PAGES = ("/console", "/console/live", "/console/letters", "/console/trace", "/console/reports", "/console/audit")


@pytest.fixture
def operator(client: Client) -> Client:
    user = User.objects.create_user("olga", password="a good long one", is_staff=True)
    grant(user, Power)
    client.force_login(user)
    return client


@pytest.fixture
def stock() -> Stock:
    return operating.create("Gong", "phone", 5, 100, 1, 0, 9_999_999_999_999)


def said(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.session["said"]
    return found


# ── who ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", PAGES)
def test_a_stranger_and_a_user_without_permissions_see_nothing(client: Client, path: str) -> None:
    for _ in range(2):
        answer = client.get(path)
        assert answer.status_code == 302 and answer["Location"].startswith("/console/login")
        client.force_login(User.objects.get_or_create(username="bob", is_staff=True)[0])


def test_a_stranger_changes_nothing(client: Client, stock: Stock) -> None:
    assert client.post(f"/console/sales/{stock.sale_id}", {"verb": "close"}).status_code == 302
    assert Sale.objects.get(id=stock.sale_id).state == "open"


def test_a_form_from_elsewhere_changes_nothing(stock: Stock) -> None:
    client = Client(enforce_csrf_checks=True)
    olga = User.objects.create_user("olga", password="x", is_staff=True)
    grant(olga, Power)
    client.force_login(olga)
    assert client.post(f"/console/sales/{stock.sale_id}", {"verb": "close"}).status_code == 403
    assert Sale.objects.get(id=stock.sale_id).state == "open"


def test_a_script_that_asks_without_a_session_is_told_so(client: Client) -> None:
    assert client.get("/console/live", headers={"Accept": "application/json"}).status_code == 401


def test_an_operator_is_made_with_a_word() -> None:
    told = StringIO()
    call_command("operator", "olga", stdout=told)
    password = told.getvalue().split()[-1]
    made = User.objects.get(username="olga")
    assert made.is_staff and made.check_password(password) and not made.is_superuser
    assert powers_of(made) == set(Power), "in development"


def test_a_weak_password_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("12345\n"))
    with pytest.raises(CommandError):
        call_command("operator", "olga", "--password-stdin")


# ── what he does ─────────────────────────────────────────────────────────────────────────────────


def test_a_verb_is_written_down_under_the_name_of_who_has_signed_in(operator: Client, stock: Stock) -> None:
    operator.post(f"/console/sales/{stock.sale_id}", {"verb": "pause"})
    assert Sale.objects.get(id=stock.sale_id).state == "paused"
    entry = Entry.objects.latest("id")
    assert (entry.actor, entry.verb, entry.result) == ("olga", "sale pause", "done")
    operator.post(f"/console/sales/{stock.sale_id}", {"verb": "adjust", "units": "3"})
    assert Stock.objects.get(id=stock.id).available == 8


@pytest.mark.parametrize(
    "form", [{"verb": "adjust", "units": "-6"}, {"verb": "adjust", "units": "x"}, {"verb": "sell"}]
)
def test_what_is_refused_is_said_and_changes_nothing(operator: Client, stock: Stock, form: dict[str, str]) -> None:
    assert operator.post(f"/console/sales/{stock.sale_id}", form).status_code == 303
    assert not said(operator)["good"]
    assert Stock.objects.get(id=stock.id).available == 5


@pytest.mark.parametrize("order", ["", "no id", "0b1c6f5e-6f0d-5a43-9f4b-3d2a4f8c1e77"])
def test_an_order_that_cannot_be_refunded_is_refused_in_words(operator: Client, order: str) -> None:
    operator.post("/console/refund", {"order": order})
    assert not said(operator)["good"] and said(operator)["text"]


def test_without_a_stack_its_words_are_refused(operator: Client) -> None:
    operator.post("/console/stack", {"word": "kill", "name": "inventory"})
    assert "no stack" in said(operator)["text"]


def test_a_group_that_the_sale_needs_cannot_be_switched_off(operator: Client) -> None:
    operator.post("/console/switch", {"group": "inventory", "on": "0"})
    assert not said(operator)["good"]
    operator.post("/console/switch", {"group": "notify.sms", "on": "0"})
    assert said(operator)["good"] and counting.count().off == ["notify.sms"]


def test_faults_are_for_development_and_are_not_there_in_production(
    operator: Client, settings: Any, tmp_path: Path
) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, stack_folder=str(tmp_path))
    assert str(FAULTS[0].does) in operator.get("/console").content.decode()
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, development=False)
    assert str(FAULTS[0].does) not in operator.get("/console").content.decode()
    assert operator.post("/console/fault", {"fault": FAULTS[0].name}).status_code == 404


# ── what he reads ────────────────────────────────────────────────────────────────────────────────


def test_what_is_counted_is_what_is_there(stock: Stock) -> None:
    operating.adjust(stock.sale_id, "phone", 2)
    [sale] = counting.count().sales
    assert (sale.declared, sale.adjusted, sale.available) == (5, 2, 7)
    assert [what for _, what in counting.spoken()] == [f"sale adjust sale {sale.id} phone", "sale create Gong phone"]


def test_nothing_is_known_of_what_was_never_asked(operator: Client) -> None:
    assert tracing.find("nobody") == []
    assert "Nothing is known of it" in operator.get("/console/trace?id=nobody").content.decode()


@pytest.mark.parametrize("address", ["/console/trace?id=a%00b", "/console/letters?group=%00"])
def test_what_postgres_cannot_keep_is_refused(operator: Client, address: str) -> None:
    assert operator.get(address.replace("%00", "")).status_code == 200
    assert operator.get(address).status_code == 400


def test_reports_are_listed_with_their_verdict_and_shown_apart(operator: Client, settings: Any, tmp_path: Path) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, stack_folder=str(tmp_path))
    folder = tmp_path / "reports"
    folder.mkdir()
    for name in ("20260101-000000", "20260102-000000"):
        (folder / f"{name}.log").touch()
    judged = {"verdict": "PASS", "invariants": [{"verdict": "PASS"}, {"verdict": "NOT RUN"}]}
    (folder / "20260101-000000.json").write_text(json.dumps(judged))
    (folder / "20260101-000000.html").write_text("<h1>the books</h1>")
    rows = reports._listed(folder)
    assert [(row["verdict"], row["counts"]) for row in rows] == [("?", {}), ("PASS", {"PASS": 1, "NOT RUN": 1})]
    shown = operator.get("/console/reports/20260101-000000")
    assert b"the books" in shown.content and "sandbox" in shown["Content-Security-Policy"]
    for name in ("20260102-000000", "..%2F..%2Fpasswords"):
        assert operator.get(f"/console/reports/{name}").status_code == 404
