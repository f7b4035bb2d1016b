"""Every action of the console with every permission: a missing permission hides the action and refuses it."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import CommandError, call_command
from django.test import Client

from inventory import sale_commands
from seckill.console import dead_letters, rush, stack_operations
from seckill.console.permissions import REQUIRED, ConsolePermission, grant_permissions, permissions_of
from seckill.console.stack_operations import FAULTS
from seckill.messaging.models import DeadLetter

NO_ORDER = "0b1c6f5e-6f0d-5a43-9f4b-3d2a4f8c1e77"
PAGES = ("/console", "/console/live", "/console/letters", "/console/trace", "/console/reports", "/console/audit")


@pytest.fixture(autouse=True)
def stack_folder(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Actions are accepted, but nothing is killed, replayed or made."""
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, stack_folder=str(tmp_path))
    monkeypatch.setattr(stack_operations, "send_to_stack", lambda command: "done")
    monkeypatch.setattr(stack_operations, "FAULTS", (FAULTS[0]._replace(inject=lambda: None),))
    monkeypatch.setattr(rush, "_start", lambda sale, buyers, seconds: None)
    monkeypatch.setattr(dead_letters, "_apply_verb", lambda letter, form: (None, "done"))


@pytest.fixture
def letter() -> int:
    return DeadLetter.objects.create(
        group="orders", topic="inventory.decisions", topic_id="t", partition=0, offset=1, reason="poison", value=b"{}"
    ).id


def signed_in(*permissions: ConsolePermission, user: str = "olga") -> Client:
    client, made = Client(), User.objects.create_user(user, is_staff=True)
    grant_permissions(made, permissions)
    client.force_login(made)
    return client


def sale_form() -> dict[str, str]:
    row = {"sku": "phone", "units": "5", "price": "99", "cap": "1"}
    rows = {f"article-0-{name}": value for name, value in row.items()}
    return {"name": "Gong", "opens_at": "", "time_zone": "UTC", "lasts_minutes": "60", "article-TOTAL_FORMS": "1",
            "article-INITIAL_FORMS": "0", **rows}  # fmt: skip


def send_action(client: Client, action: str, sale: int, letter: int) -> int:
    if action == "sale create":
        return client.post("/console/sales/new", sale_form()).status_code
    first, _, second = action.partition(" ")
    path, form = {
        "sale": (f"/console/sales/{sale}", {"verb": second, "units": "1"}),
        "refund": ("/console/refund", {"order": NO_ORDER}),
        "switch": ("/console/switch", {"group": "notify.sms", "on": "0"}),
        "stack": ("/console/stack", {"command": second, "name": "inventory", "count": "1"}),
        "fault": ("/console/fault", {"fault": FAULTS[0].name}),
        "letter": (f"/console/letters/{letter}", {"verb": second, "because": "a test"}),
        "report": ("/console/reports", {}),
        "rush": ("/console/rush", {"sale": str(sale), "buyers": "1", "seconds": "1"}),
    }[first]
    return client.post(path, form).status_code


@pytest.mark.parametrize("permission", ConsolePermission)
@pytest.mark.parametrize("action", REQUIRED)
def test_an_action_needs_its_own_permission(action: str, permission: ConsolePermission, letter: int) -> None:
    sale = sale_commands.create_sale("Gong", "phone", 5, 100, 1, 0, 9_999_999_999_999).sale_id
    answered = send_action(signed_in(ConsolePermission.VIEW, permission), action, sale, letter)
    assert answered == (303 if REQUIRED[action] is permission else 403)


@pytest.mark.parametrize("action", REQUIRED)
def test_without_view_no_other_permission_counts(action: str, letter: int) -> None:
    client = signed_in(*(permission for permission in ConsolePermission if permission is not ConsolePermission.VIEW))
    sale = sale_commands.create_sale("Gong", "phone", 5, 100, 1, 0, 9_999_999_999_999).sale_id
    assert send_action(client, action, sale, letter) == 302
    assert {client.get(page).status_code for page in PAGES} == {302}


def test_every_address_that_changes_something_requires_a_permission() -> None:
    """A new address fails this test until it requires a permission and is covered above."""
    from seckill.console import urls

    changing = {
        path.name for path in urls.urlpatterns if path.name not in ("board", "live", "audit", "trace", "report")
    }
    assert changing == {
        "login", "logout", "sale", "new-sale", "refund", "switch", "stack", "fault", "letters", "letter", "reports",
        "rush",
    }  # fmt: skip
    assert {action.partition(" ")[0] for action in REQUIRED} == {
        "sale",
        "refund",
        "switch",
        "stack",
        "fault",
        "letter",
        "report",
        "rush",
    }


SHOWN = {
    ConsolePermission.OPERATE: ('value="adjust"', "/console/switch", 'value="scale"'),
    ConsolePermission.REFUND: ("/console/refund",),
    ConsolePermission.BREAK: ('value="kill"', "/console/fault"),
}


@pytest.mark.parametrize("permission", SHOWN)
def test_the_board_shows_permitted_actions_only(permission: ConsolePermission) -> None:
    page = signed_in(ConsolePermission.VIEW, permission).get("/console").content.decode()
    for other, marks in SHOWN.items():
        assert all((mark in page) is (other is permission) for mark in marks), other


def test_dead_letters_and_reports_show_their_actions_with_operate_only(letter: int) -> None:
    for name, permissions in (
        ("olga", [ConsolePermission.VIEW, ConsolePermission.OPERATE]),
        ("rita", [ConsolePermission.VIEW, ConsolePermission.REFUND, ConsolePermission.BREAK]),
    ):
        client = signed_in(*permissions, user=name)
        for page, mark in ((f"/console/letters/{letter}", 'value="replay"'), ("/console/reports", "Create a report")):
            assert (mark in client.get(page).content.decode()) is (ConsolePermission.OPERATE in permissions)


@pytest.mark.parametrize("action", [each for each in REQUIRED if REQUIRED[each] is ConsolePermission.BREAK])
def test_faults_are_refused_outside_development_even_with_permission(action: str, letter: int, settings: Any) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, development=False, console_hosts="testserver")
    client = signed_in(*ConsolePermission)
    assert send_action(client, action, 1, letter) in (403, 404)
    assert "kill -9" not in client.get("/console").content.decode()
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, development=True)
    assert send_action(client, action, 1, letter) == 303


def test_members_have_the_permissions_of_their_group() -> None:
    member = User.objects.create_user("olga")
    grant_permissions(User.objects.create_user("other"), [ConsolePermission.VIEW])
    group = Group.objects.create(name="support")
    group.permissions.add(Permission.objects.get(content_type__app_label="console", codename="view"))
    member.groups.add(group)
    assert permissions_of(User.objects.get(username="olga")) == {ConsolePermission.VIEW}


# ── the operator command ─────────────────────────────────────────────────────────────────────


def made(*words: str) -> User:
    call_command("operator", "olga", *words, stdout=StringIO())
    return User.objects.get(username="olga")


def test_an_operator_gets_exactly_the_named_permissions() -> None:
    assert permissions_of(made("--may", "view,operate")) == {ConsolePermission.VIEW, ConsolePermission.OPERATE}
    assert permissions_of(made("--may", "view, refund")) == {ConsolePermission.VIEW, ConsolePermission.REFUND}, (
        "the other permissions are taken away"
    )
    assert not made().is_superuser


def test_outside_development_an_operator_can_only_view_by_default(settings: Any) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, development=False)
    assert permissions_of(made()) == {ConsolePermission.VIEW}


@pytest.mark.parametrize("permissions", ["view,everything", "operate", ""])
def test_invalid_permissions_are_refused(permissions: str) -> None:
    with pytest.raises(CommandError):
        made("--may", permissions)
    assert not User.objects.exists()
