"""Each verb of the console with each permission: what is not permitted is not shown, and is refused by the server."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import CommandError, call_command
from django.test import Client

from inventory import operating
from seckill.console import operating as console
from seckill.console import reports
from seckill.console.operating import FAULTS
from seckill.console.permissions import VERBS, Power, grant, powers_of
from seckill.streams.models import DeadLetter

NO_ORDER = "0b1c6f5e-6f0d-5a43-9f4b-3d2a4f8c1e77"
PAGES = ("/console", "/console/live", "/console/letters", "/console/trace", "/console/reports", "/console/audit")


@pytest.fixture(autouse=True)
def stack_folder(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is really killed, replayed or made."""
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, stack_folder=str(tmp_path))
    monkeypatch.setattr(console, "_tell_stack", lambda order: "told")
    monkeypatch.setattr(console, "FAULTS", (FAULTS[0]._replace(inject=lambda: None),))
    monkeypatch.setattr(reports, "_begin", lambda folder: True)
    monkeypatch.setattr("seckill.console.letters._act", lambda letter, form: {"text": "done", "good": True})


@pytest.fixture
def letter() -> int:
    return DeadLetter.objects.create(
        group="orders", topic="inventory.decisions", topic_id="t", partition=0, offset=1, reason="poison", value=b"{}"
    ).id


def signed_in(*powers: Power, user: str = "olga") -> Client:
    client, made = Client(), User.objects.create_user(user, is_staff=True)
    grant(made, powers)
    client.force_login(made)
    return client


def speak(client: Client, verb: str, sale: int, letter: int) -> int:
    first, _, second = verb.partition(" ")
    path, form = {
        "sale": (f"/console/sales/{sale}", {"verb": second, "units": "1"}),
        "refund": ("/console/refund", {"order": NO_ORDER}),
        "switch": ("/console/switch", {"group": "notify.sms", "on": "0"}),
        "stack": ("/console/stack", {"word": second, "name": "inventory", "count": "1"}),
        "fault": ("/console/fault", {"fault": FAULTS[0].name}),
        "letter": (f"/console/letters/{letter}", {"verb": second, "because": "a test"}),
        "report": ("/console/reports", {}),
    }[first]
    return client.post(path, form).status_code


@pytest.mark.parametrize("power", Power)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_needs_its_power_and_no_other_one_will_do(verb: str, power: Power, letter: int) -> None:
    sale = operating.create("Gong", "phone", 5, 100, 1, 0, 9_999_999_999_999).sale_id
    answered = speak(signed_in(Power.VIEW, power), verb, sale, letter)
    assert answered == (303 if VERBS[verb] is power else 403)


@pytest.mark.parametrize("verb", VERBS)
def test_without_view_no_power_is_worth_anything(verb: str, letter: int) -> None:
    client = signed_in(*(power for power in Power if power is not Power.VIEW))
    sale = operating.create("Gong", "phone", 5, 100, 1, 0, 9_999_999_999_999).sale_id
    assert speak(client, verb, sale, letter) == 302
    assert {client.get(page).status_code for page in PAGES} == {302}


def test_every_address_that_changes_something_is_in_the_table_of_verbs() -> None:
    """A new one is seen here: it has to demand a power, and to be spoken above."""
    from seckill.console import urls

    changing = {
        path.name for path in urls.urlpatterns if path.name not in ("board", "live", "audit", "trace", "report")
    }
    assert changing == {"login", "logout", "sale", "refund", "switch", "stack", "fault", "letters", "letter", "reports"}
    assert {verb.partition(" ")[0] for verb in VERBS} == {
        "sale",
        "refund",
        "switch",
        "stack",
        "fault",
        "letter",
        "report",
    }


SHOWN = {
    Power.OPERATE: ('value="adjust"', "/console/switch", 'value="scale"'),
    Power.REFUND: ("/console/refund",),
    Power.BREAK: ('value="kill"', "/console/fault"),
}


@pytest.mark.parametrize("power", SHOWN)
def test_the_board_shows_what_one_may_do_and_nothing_else(power: Power) -> None:
    page = signed_in(Power.VIEW, power).get("/console").content.decode()
    for other, marks in SHOWN.items():
        assert all((mark in page) is (other is power) for mark in marks), other


def test_letters_and_reports_offer_their_verbs_to_those_who_may_operate(letter: int) -> None:
    for name, powers in (("olga", [Power.VIEW, Power.OPERATE]), ("rita", [Power.VIEW, Power.REFUND, Power.BREAK])):
        client = signed_in(*powers, user=name)
        for page, mark in ((f"/console/letters/{letter}", 'value="replay"'), ("/console/reports", "Make one now")):
            assert (mark in client.get(page).content.decode()) is (Power.OPERATE in powers)


@pytest.mark.parametrize("verb", [verb for verb, power in VERBS.items() if power is Power.BREAK])
def test_breaking_is_for_development_whoever_asks(verb: str, letter: int, settings: Any) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, development=False, console_hosts="testserver")
    client = signed_in(*Power)
    assert speak(client, verb, 1, letter) in (403, 404)
    assert "kill -9" not in client.get("/console").content.decode()
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, development=True)
    assert speak(client, verb, 1, letter) == 303


def test_a_group_gives_its_powers_to_its_members() -> None:
    member = User.objects.create_user("olga")
    grant(User.objects.create_user("other"), [Power.VIEW])
    group = Group.objects.create(name="support")
    group.permissions.add(Permission.objects.get(content_type__app_label="console", codename="view"))
    member.groups.add(group)
    assert powers_of(User.objects.get(username="olga")) == {Power.VIEW}


# ── operators made by a word ─────────────────────────────────────────────────────────────────────


def made(*words: str) -> User:
    call_command("operator", "olga", *words, stdout=StringIO())
    return User.objects.get(username="olga")


def test_an_operator_gets_the_powers_that_are_named_and_no_more() -> None:
    assert powers_of(made("--may", "view,operate")) == {Power.VIEW, Power.OPERATE}
    assert powers_of(made("--may", "view, refund")) == {Power.VIEW, Power.REFUND}, "the others are taken away"
    assert not made().is_superuser


def test_outside_development_an_operator_may_only_look_unless_more_is_named(settings: Any) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, development=False)
    assert powers_of(made()) == {Power.VIEW}


@pytest.mark.parametrize("powers", ["view,everything", "operate", ""])
def test_powers_that_make_no_sense_are_refused(powers: str) -> None:
    with pytest.raises(CommandError):
        made("--may", powers)
    assert not User.objects.exists()
