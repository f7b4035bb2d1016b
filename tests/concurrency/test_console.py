"""The console with a real database: access, the audit trail, refusals, and what its pages show."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db.models.functions import Now
from django.test import Client

from inventory import sale_commands
from inventory.models import Sale, Stock
from seckill.audit.models import AuditEntry
from seckill.console import queries, rush, trace
from seckill.console.models import Report
from seckill.console.permissions import ConsolePermission, grant_permissions, permissions_of
from seckill.console.stack_operations import FAULTS
from seckill.messaging.group_switches import OPTIONAL_GROUPS
from seckill.stack import control

PAGES = ("/console", "/console/live", "/console/letters", "/console/trace", "/console/reports", "/console/audit")


@pytest.fixture
def operator(client: Client) -> Client:
    user = User.objects.create_user("olga", password="a good long one", is_staff=True)
    grant_permissions(user, ConsolePermission)
    client.force_login(user)
    return client


@pytest.fixture
def stock() -> Stock:
    return sale_commands.create_sale("Gong", "phone", 5, 100, 1, 0, 9_999_999_999_999)


def notice(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.session["notice"]
    return found


# ── access ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", PAGES)
def test_visitors_and_users_without_permissions_are_sent_to_sign_in(client: Client, path: str) -> None:
    for _ in range(2):
        answer = client.get(path)
        assert answer.status_code == 302 and answer["Location"].startswith("/console/login")
        client.force_login(User.objects.get_or_create(username="bob", is_staff=True)[0])


def test_a_visitor_cannot_change_a_sale(client: Client, stock: Stock) -> None:
    assert client.post(f"/console/sales/{stock.sale_id}", {"verb": "close"}).status_code == 302
    assert Sale.objects.get(id=stock.sale_id).state == "open"


def test_a_form_from_another_site_is_refused(stock: Stock) -> None:
    client = Client(enforce_csrf_checks=True)
    olga = User.objects.create_user("olga", password="x", is_staff=True)
    grant_permissions(olga, ConsolePermission)
    client.force_login(olga)
    assert client.post(f"/console/sales/{stock.sale_id}", {"verb": "close"}).status_code == 403
    assert Sale.objects.get(id=stock.sale_id).state == "open"


def test_the_boards_script_gets_401_without_a_session(client: Client) -> None:
    assert client.get("/console/live", headers={"Accept": "application/json"}).status_code == 401


def test_the_operator_command_creates_an_operator() -> None:
    output = StringIO()
    call_command("operator", "olga", stdout=output)
    password = output.getvalue().split()[-1]
    made = User.objects.get(username="olga")
    assert made.is_staff and made.check_password(password) and not made.is_superuser
    assert permissions_of(made) == set(ConsolePermission), "in development"


def test_a_weak_password_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("12345\n"))
    with pytest.raises(CommandError):
        call_command("operator", "olga", "--password-stdin")


# ── operations ─────────────────────────────────────────────────────────────────────────────────


def test_an_operation_is_audited_under_the_operators_name(operator: Client, stock: Stock) -> None:
    operator.post(f"/console/sales/{stock.sale_id}", {"verb": "pause"})
    assert Sale.objects.get(id=stock.sale_id).state == "paused"
    entry = AuditEntry.objects.latest("id")
    assert (entry.actor, entry.verb, entry.result) == ("olga", "sale pause", "done")
    operator.post(f"/console/sales/{stock.sale_id}", {"verb": "adjust", "units": "3"})
    assert Stock.objects.get(id=stock.id).available == 8


@pytest.mark.parametrize(
    "form", [{"verb": "adjust", "units": "-6"}, {"verb": "adjust", "units": "x"}, {"verb": "sell"}]
)
def test_a_refused_operation_says_why_and_changes_nothing(operator: Client, stock: Stock, form: dict[str, str]) -> None:
    assert operator.post(f"/console/sales/{stock.sale_id}", form).status_code == 303
    assert not notice(operator)["is_good"]
    assert Stock.objects.get(id=stock.id).available == 5


@pytest.mark.parametrize("order", ["", "no id", "0b1c6f5e-6f0d-5a43-9f4b-3d2a4f8c1e77"])
def test_a_refund_of_an_unknown_order_says_why(operator: Client, order: str) -> None:
    operator.post("/console/refund", {"order": order})
    assert not notice(operator)["is_good"] and notice(operator)["text"]


def test_without_a_stack_process_operations_are_refused(operator: Client) -> None:
    operator.post("/console/stack", {"command": "kill", "name": "inventory"})
    assert "not attached to a stack" in notice(operator)["text"]


@pytest.mark.parametrize(
    "form", [{}, {"buyers": "0"}, {"buyers": "5001"}, {"seconds": "601"}, {"seconds": "ten"}, {"sale": "-1"}]
)
def test_a_rush_outside_its_limits_is_refused(operator: Client, settings: Any, form: dict[str, str]) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, locust_url="http://127.0.0.1:9")
    whole = {"sale": "1", "buyers": "5", "seconds": "5"} | form
    operator.post("/console/rush", whole if form else {})
    assert not notice(operator)["is_good"]
    assert "make rush" not in notice(operator)["text"], "it is refused before Locust is asked"


def test_a_rush_without_locust_says_how_to_start_it(operator: Client, settings: Any) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, locust_url="http://127.0.0.1:9")
    assert rush.locust_state() is rush.LocustState.ABSENT
    operator.post("/console/rush", {"sale": "1", "buyers": "5", "seconds": "5"})
    assert "make rush" in notice(operator)["text"]
    assert AuditEntry.objects.latest("id").result != "done"


def test_a_group_that_the_sale_needs_cannot_be_switched_off(operator: Client) -> None:
    operator.post("/console/switch", {"group": "inventory", "on": "0"})
    assert not notice(operator)["is_good"]
    operator.post("/console/switch", {"group": "notify.sms", "on": "0"})
    assert notice(operator)["is_good"] and queries.read_counts(0).switched_off == ["notify.sms"]


def test_fault_buttons_exist_in_development_only(operator: Client, settings: Any, tmp_path: Path) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, stack_folder=str(tmp_path))
    assert str(FAULTS[0].does) in operator.get("/console").content.decode()
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, development=False)
    assert str(FAULTS[0].does) not in operator.get("/console").content.decode()
    assert operator.post("/console/fault", {"fault": FAULTS[0].name}).status_code == 404


# ── in Chinese ─────────────────────────────────────────────────────────────────────────────────────


def english_words(text: str) -> list[str]:
    """Words that no translation may contain, other than names of consumer groups."""
    return [word for word in re.findall(r"(?<![\w.`])[a-z]{2,}(?![\w.`])", text) if word not in OPTIONAL_GROUPS]


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/console/sales/{sale}", {"verb": "adjust", "units": "-6"}),
        ("/console/sales/{sale}", {"verb": "adjust", "units": "0"}),
        ("/console/sales/{sale}", {"verb": "adjust", "units": "x"}),
        ("/console/sales/{sale}", {"verb": "sell"}),
        ("/console/sales/999999", {"verb": "close"}),
        ("/console/refund", {"order": "0b1c6f5e-6f0d-5a43-9f4b-3d2a4f8c1e77"}),
        ("/console/switch", {"group": "gateway.outcomes", "on": "0"}),
        ("/console/stack", {"command": "kill", "name": "7"}),
    ],
)
def test_a_refusal_is_chinese_on_a_chinese_page_and_english_in_the_audit_trail(
    operator: Client, stock: Stock, path: str, form: dict[str, str]
) -> None:
    operator.post(path.format(sale=stock.sale_id), form, headers={"Accept-Language": "zh-CN"})
    refusal = notice(operator)
    assert not refusal["is_good"]
    assert english_words(refusal["text"]) == [], refusal["text"]
    assert re.search("[\u4e00-\u9fff]", refusal["text"])
    assert not re.search("[\u4e00-\u9fff]", AuditEntry.objects.latest("id").result)


def test_a_refusal_without_a_chinese_browser_is_english(operator: Client, stock: Stock) -> None:
    """The control of the test above."""
    operator.post(f"/console/sales/{stock.sale_id}", {"verb": "adjust", "units": "-6"})
    assert notice(operator)["text"] == "cannot remove 6 units: only 5 are available"
    assert english_words(notice(operator)["text"])


def test_the_stacks_refusal_is_translated(
    operator: Client, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(layout: object, command: object) -> dict[str, Any]:
        return control._execute_line("{}", execute)

    def execute(command: object) -> dict[str, Any]:
        raise control.CommandRefused("{name} cannot run {count} times", name="WORKER", count=9)

    monkeypatch.setattr(control, "send_command", refuse)
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, stack_folder=str(tmp_path))
    form = {"command": "scale", "name": "WORKER", "count": "9"}
    operator.post("/console/stack", form, headers={"Accept-Language": "zh-CN"})
    assert notice(operator)["text"] == "WORKER 不能运行 9 个进程"
    operator.post("/console/stack", form)
    assert notice(operator)["text"] == "WORKER cannot run 9 times"


# ── what pages show ────────────────────────────────────────────────────────────────────────────────


def test_the_counts_match_the_tables(stock: Stock) -> None:
    sale_commands.adjust_stock(stock.sale_id, "phone", 2)
    [sale] = queries.read_counts(0).sales
    assert (sale.declared, sale.adjusted, sale.available) == (5, 2, 7)
    operations = queries.recent_operations()
    assert [(each.verb, each.target) for each in operations] == [
        ("sale adjust", f"sale {sale.id} phone"),
        ("sale create", "Gong phone"),
    ]
    assert all(each.actor for each in operations)


def test_the_running_sale_is_listed_first() -> None:
    now_ms = 1_000_000
    for opens, closes in ((0, 2_000_000), (1_500_000, 2_000_000), (0, 900_000)):
        sale_commands.create_sale("Gong", "phone", 5, 100, 1, opens, closes)
    states = [(sale.opens_at_ms, sale.closes_at_ms) for sale in queries.read_sales(now_ms)]
    assert states == [(0, 2_000_000), (1_500_000, 2_000_000), (0, 900_000)]
    assert [sale.opens_at_ms for sale in queries.read_sales(2_500_000)][1] == 1_500_000, "all over: the newest first"


def test_the_trace_of_an_unknown_id_is_empty(operator: Client) -> None:
    assert trace.find_requests("nobody") == []
    assert "Nothing found." in operator.get("/console/trace?id=nobody").content.decode()


@pytest.mark.parametrize("address", ["/console/trace?id=a%00b", "/console/letters?group=%00"])
def test_a_form_field_with_nul_is_refused(operator: Client, address: str) -> None:
    assert operator.get(address.replace("%00", "")).status_code == 200
    assert operator.get(address).status_code == 400


def test_reports_are_listed_with_their_verdict_and_sandboxed(operator: Client) -> None:
    done = Report.objects.create(
        requested_by="olga", state="done", verdict="PASS", counts={"PASS": 1, "NOT RUN": 1}, html="<h1>the books</h1>"
    )
    failed = Report.objects.create(requested_by="rita", state="failed", error="no broker answers")
    page = operator.get("/console/reports").content.decode()
    assert page.index("no broker answers") < page.index("1 passed · 1 not run"), "the newest comes first"
    shown = operator.get(f"/console/reports/{done.pk}")
    assert b"the books" in shown.content and "sandbox" in shown["Content-Security-Policy"]
    for name in (failed.pk, done.pk + 1000, "..%2F..%2Fpasswords"):
        assert operator.get(f"/console/reports/{name}").status_code == 404


def test_an_operator_orders_a_report_once_and_is_told_that_it_waits(operator: Client) -> None:
    assert operator.post("/console/reports").status_code == 303
    page = operator.get("/console/reports").content.decode()
    assert "queued" in page and "<button disabled" in page
    assert "The report service is not running" in page, "nothing makes reports in this test"
    operator.post("/console/reports")
    assert notice(operator) == {"text": "A report is already queued. It will be made next.", "is_good": False}
    assert Report.objects.count() == 1
    [entry] = AuditEntry.objects.all()
    assert (entry.verb, entry.target, entry.actor) == ("report", f"report {Report.objects.get().pk}", "olga")


def test_a_report_whose_service_ended_is_shown_as_lost(operator: Client) -> None:
    Report.objects.create(requested_by="olga", state="running", lease_until=Now())
    assert "The report service ended while it made this report." in operator.get("/console/reports").content.decode()
