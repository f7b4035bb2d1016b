"""Django's admin: rows are read-only, and each action is an audited command that needs a permission of the console."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from inventory import sale_commands
from inventory.models import Sale
from notifications.models import Delivery
from orders.models import Discrepancy, Order, Payment
from orders.states import OrderState
from seckill.audit.models import AuditEntry
from seckill.audit.operator_admin import OperatorAction, OperatorAdmin
from seckill.config import urls  # noqa: F401  # registers the models
from seckill.console.permissions import REQUIRED, ConsolePermission, grant_permissions
from seckill.messaging.models import DeadLetter
from tests.concurrency.orders_cast import decided, place_order, with_envelope

FAR_MS = 10**15
INLINE = re.compile(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)|\sstyle=|\son[a-z]+=", re.IGNORECASE)


def registered() -> dict[type[Model], OperatorAdmin]:
    return {model: each for model, each in admin.site._registry.items() if isinstance(each, OperatorAdmin)}


MODELS = sorted(admin.site._registry, key=lambda model: model._meta.label)
ACTIONS = [
    pytest.param(model, action, id=f"{model._meta.model_name}-{action.name}")
    for model, each in registered().items()
    for action in each.operator_actions
]


def operator(*permissions: ConsolePermission, is_staff: bool = True) -> Client:
    client, user = Client(), User.objects.create_user(f"olga-{uuid4()}", is_staff=is_staff)
    grant_permissions(user, permissions)
    client.force_login(user)
    return client


def address(model: type[Model], page: str, *arguments: object) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=arguments)


# ── one row of each model ────────────────────────────────────────────────────────────────────────


def sale() -> Sale:
    return sale_commands.create_sale("Gong", "phone", 5, 100, 1, 0, FAR_MS).sale


def paid_order() -> Order:
    placed = place_order()
    Payment.objects.create(id=uuid4(), order=placed, amount=placed.amount, state="captured")
    Order.objects.filter(id=placed.id).update(state=OrderState.PAID)
    placed.refresh_from_db()
    return placed


def dead_letter() -> DeadLetter:
    envelope, _ = with_envelope(decided())
    return DeadLetter.objects.create(
        group="orders", cluster_id="c", topic="inventory.decisions", topic_id="t", partition=0, offset=1,
        reason="poison", value=envelope.encode(),
    )  # fmt: skip


def given_up() -> Delivery:
    return Delivery.objects.create(event_id=uuid4(), channel="sms", user_id="ann", text="paid", state="given_up")


def discrepancy() -> Discrepancy:
    return Discrepancy.objects.create(payment_id=uuid4(), kind="unknown_there", amount=100, state="open")


ROWS: dict[type[Model], Callable[[], Model]] = {
    Sale: sale,
    Order: paid_order,
    DeadLetter: dead_letter,
    Delivery: given_up,
    Discrepancy: discrepancy,
}


def fill_every_table() -> None:
    from inventory.batch_sql import insert_decisions, insert_holds
    from seckill.messaging.record_position import RecordPosition

    stock = sale().stock_set.get()
    request_id = uuid4()
    insert_holds([(request_id, stock.id, stock.sale_id, "ann", 1, RecordPosition("purchase.requests", 0, 1))])
    insert_decisions(0, "c", "t", 0, [(request_id, "ann", stock.sale_id, "phone", 1, "RESERVED", 1, 0, 0, 1)])
    for make in (paid_order, dead_letter, given_up, discrepancy):
        make()


# ── access ───────────────────────────────────────────────────────────────────────────────────────


def test_the_tables_that_an_operator_needs_are_registered_and_each_is_read_only() -> None:
    names = {model._meta.label for model in MODELS}
    assert names == {
        "audit.AuditEntry", "inventory.DecidedRequest", "inventory.Hold", "inventory.LedgerEntry", "inventory.Sale",
        "inventory.Stock", "messaging.DeadLetter", "notifications.Delivery", "orders.Discrepancy", "orders.Order",
        "orders.Payment",
    }  # fmt: skip
    assert set(registered()) == set(MODELS), "every registered model has the read-only base class"


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_a_table_is_shown_only_with_the_permission_to_view(model: type[Model]) -> None:
    page = address(model, "changelist")
    others = [each for each in ConsolePermission if each is not ConsolePermission.VIEW]
    for client in (Client(), operator(), operator(*others)):
        assert client.get(page).status_code == 302
    superuser = Client()
    superuser.force_login(User.objects.create_superuser("root"))
    assert operator(ConsolePermission.VIEW).get(page).status_code == superuser.get(page).status_code == 200


def test_signing_in_leads_to_the_console_where_attempts_are_limited() -> None:
    response = Client().get("/admin/orders/order/", follow=True)
    assert response.redirect_chain[-1][0].startswith("/console/login?next=")


def test_in_production_the_admin_is_only_on_the_consoles_hosts(settings: Any) -> None:
    client = operator(ConsolePermission.VIEW)
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, development=False, console_hosts="")
    assert client.get("/admin/").status_code == 404
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, console_hosts="testserver")
    assert client.get("/admin/").status_code == 200


# ── rows are read-only ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("who", ["operator with every permission", "superuser"])
def test_no_form_adds_changes_or_deletes_a_row(who: str) -> None:
    client = Client()
    if who == "superuser":
        client.force_login(User.objects.create_superuser("root"))
    else:
        client = operator(*ConsolePermission)
    fill_every_table()
    for model in MODELS:
        row = model._default_manager.order_by("pk").first()
        assert row is not None, model
        before = {each.pk: vars_of(each) for each in model._default_manager.all()}
        fields = {field.name: "1" for field in model._meta.fields} | {"_save": "Save"}
        change, delete = address(model, "change", row.pk), address(model, "delete", row.pk)
        assert client.get(change).status_code == 200, "it can be read"
        assert client.get(address(model, "add")).status_code == 403
        assert client.post(address(model, "add"), fields).status_code == 403
        assert client.post(change, fields).status_code == 403
        assert client.post(delete, {"post": "yes"}).status_code == 403
        changelist = address(model, "changelist")
        chosen = {"_selected_action": [row.pk], "post": "yes", "index": "0"}
        client.post(changelist, chosen | {"action": "delete_selected"})
        client.post(changelist, {"form-TOTAL_FORMS": "1", "form-INITIAL_FORMS": "1", "_save": "Save"} | fields)
        assert {each.pk: vars_of(each) for each in model._default_manager.all()} == before, model


def vars_of(row: Model) -> dict[str, Any]:
    return {field.attname: getattr(row, field.attname) for field in row._meta.fields}


def test_pages_need_nothing_that_the_content_security_policy_forbids() -> None:
    fill_every_table()
    client = operator(*ConsolePermission)
    pages = ["/admin/", *(address(model, "changelist") for model in MODELS)]
    pages += [address(model, "change", model._default_manager.first().pk) for model in MODELS]  # type: ignore[union-attr]
    for page in pages:
        response = client.get(page)
        assert "script-src 'self'" in response.headers["Content-Security-Policy"], page
        assert INLINE.findall(response.content.decode()) == [], page


@pytest.mark.parametrize("text", ["ann", "00000000-0000-4000-8000-000000000001", "no uuid", "%00", "'", "x" * 300])
@pytest.mark.parametrize("model", [Order, Delivery, AuditEntry], ids=lambda model: model._meta.label)
def test_any_text_can_be_searched_for(model: type[Model], text: str) -> None:
    assert operator(ConsolePermission.VIEW).get(f"{address(model, 'changelist')}?q={text}").status_code in (200, 302)


# ── actions ──────────────────────────────────────────────────────────────────────────────────────


def run_action(client: Client, row: Model, action: OperatorAction, **form: str) -> Any:
    chosen = {"action": action.name, "_selected_action": [str(row.pk)], "index": "0"}
    return client.post(address(type(row), "changelist"), chosen | form, follow=True)


@pytest.mark.parametrize(("model", "action"), ACTIONS)
def test_an_action_needs_the_permission_of_its_command(model: type[Model], action: OperatorAction) -> None:
    needed = ConsolePermission(action.permission)
    assert REQUIRED.get(action.verb, ConsolePermission.OPERATE) is needed
    row = ROWS[model]()
    audited = AuditEntry.objects.count()
    before = vars_of(row)
    others = [each for each in ConsolePermission if each is not needed]
    run_action(operator(*others), row, action, confirmed="yes", reason="a test")
    row.refresh_from_db()
    assert (vars_of(row), AuditEntry.objects.count()) == (before, audited)


@pytest.mark.parametrize(("model", "action"), ACTIONS)
def test_an_action_runs_when_it_is_confirmed_and_leaves_an_audit_entry(
    model: type[Model], action: OperatorAction
) -> None:
    row = ROWS[model]()
    audited = AuditEntry.objects.count()
    client = operator(ConsolePermission.VIEW, ConsolePermission(action.permission))
    page = run_action(client, row, action)
    assert page.status_code == 200 and 'name="confirmed"' in page.content.decode()
    assert AuditEntry.objects.count() == audited, "nothing happens before it is confirmed"
    run_action(client, row, action, confirmed="yes", reason="a test")
    assert AuditEntry.objects.count() == audited + 1
    entry = AuditEntry.objects.latest("id")
    assert (entry.result, entry.actor[:5]) == ("done", "olga-")


def test_a_refused_action_shows_why_and_leaves_an_audit_entry() -> None:
    row = given_up()
    Delivery.objects.filter(id=row.id).update(state="done")
    [action] = registered()[Delivery].operator_actions
    page = run_action(operator(ConsolePermission.VIEW, ConsolePermission.OPERATE), row, action, confirmed="yes")
    assert "only one that was given up can be sent again" in page.content.decode()
    assert AuditEntry.objects.latest("id").result.startswith("DeliveryNotGivenUp")
