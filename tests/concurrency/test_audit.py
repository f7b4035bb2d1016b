"""The audit trail: a command and its row are one transaction, and a refused command leaves a row too."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from django.db import transaction

from inventory import sale_commands
from inventory.models import LedgerEntry, Sale, Stock
from seckill.audit.models import AuditEntry
from seckill.audit.trail import audited, list_entries
from seckill.cli.__main__ import main
from seckill.messaging import dead_letters
from seckill.messaging.models import DeadLetter
from seckill.messaging.records import Batch
from seckill.messaging.topics import PURCHASE_REQUESTS, Topic


def sale() -> Stock:
    now_ms = time.time_ns() // 1_000_000
    return sale_commands.create_sale("Gong", "phone", 5, 100, 1, now_ms, now_ms + 3_600_000)


def trail() -> list[tuple[str, str, str]]:
    return [(row.verb, row.target, row.result) for row in list_entries()]


def test_every_command_on_a_sale_is_audited() -> None:
    stock = sale()
    for word in ("pause", "open", "close"):
        assert main(["sale", word, str(stock.sale_id)]) == 0
    assert trail() == [
        ("sale create", "Gong phone", "done"),
        *((f"sale {word}", f"sale {stock.sale_id}", "done") for word in ("pause", "open", "close")),
    ]
    assert AuditEntry.objects.earliest("id").arguments["units"] == 5


def test_a_refused_adjustment_is_audited_and_changes_nothing_else() -> None:
    stock = sale()
    sale_commands.adjust_stock(stock.sale_id, "phone", 3)
    with pytest.raises(sale_commands.SaleCommandRejected):
        sale_commands.adjust_stock(stock.sale_id, "phone", -9)
    assert [row.result for row in list_entries(verb="sale adjust")] == [
        "done",
        "SaleCommandRejected: cannot remove 9 units: only 8 are available",
    ]
    assert Stock.objects.get().available == 8
    assert LedgerEntry.objects.filter(kind="adjust").count() == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"units": 0},
        {"units": 10**9 + 1},
        {"unit_price": -1},
        {"unit_price": 10**15 + 1},
        {"unit_price": 2**62, "cap": 2},
        {"cap": 0},
        {"cap": 10**9 + 1},
        {"closes_at_ms": 0},
        {"closes_at_ms": 10**300},
        {"name": ""},
        {"name": "x" * 101},
        {"sku": "a\0b"},
        {"sku": ""},
    ],
    ids=str,
)
def test_a_sale_with_impossible_values_is_refused(wrong: dict[str, Any]) -> None:
    good: dict[str, Any] = {
        "name": "Gong",
        "sku": "phone",
        "units": 5,
        "unit_price": 100,
        "cap": 1,
        "opens_at_ms": 0,
        "closes_at_ms": 9,
    }
    with pytest.raises(sale_commands.SaleCommandRejected):
        sale_commands.create_sale(**(good | wrong))
    assert Stock.objects.count() == 0
    assert sale_commands.create_sale(**good).available == 5  # the control


@pytest.mark.parametrize(
    "words", [["--opens-in", "nan"], ["--lasts", "inf"], ["--units", "many"], ["--price", "9" * 99]]
)
def test_a_sale_with_an_impossible_number_is_refused_in_one_line(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sale", "create", "--name", "Gong", "--sku", "phone", "--units", "5", *words]) in (1, 2)
    assert "Traceback" not in capsys.readouterr().err
    assert Stock.objects.count() == 0


def test_a_command_whose_audit_row_cannot_be_written_is_rolled_back(monkeypatch: pytest.MonkeyPatch) -> None:
    stock = sale()
    monkeypatch.setattr("seckill.audit.trail.current_operator", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        sale_commands.set_sale_state(stock.sale_id, "paused")
    assert Sale.objects.get().state == "open"


def test_opening_a_closed_sale_is_refused() -> None:
    stock = sale()
    sale_commands.set_sale_state(stock.sale_id, "closed")
    assert main(["sale", "open", str(stock.sale_id)]) == 1
    assert trail()[-1][2].startswith("SaleCommandRejected")


def test_an_audit_row_is_rolled_back_with_its_transaction() -> None:
    with pytest.raises(KeyError), transaction.atomic(), audited("sale close", "sale 1"):
        raise KeyError
    assert not AuditEntry.objects.exists()


def test_the_actor_is_the_given_one_or_the_environments_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "mallory")
    with audited("a", "x", actor="eve"):
        pass
    with audited("b", "x"):
        pass
    assert [row.actor for row in list_entries()] == ["eve", "mallory"]


class Reader:
    group = "inventory"
    topics: tuple[Topic, ...] = (PURCHASE_REQUESTS,)

    def handle(self, batch: Batch) -> None:
        raise ValueError("still bad")


def test_a_failed_replay_and_a_discard_are_audited_with_their_results() -> None:
    letter = DeadLetter.objects.create(
        group="inventory", topic="purchase.requests", topic_id="t", partition=0, offset=3, reason="bad", value=b"no"
    )
    assert dead_letters.replay(letter, Reader()) is not None
    assert dead_letters.discard(letter, Reader(), "nobody's") is None
    [replayed, discarded] = list_entries()
    assert (replayed.verb, discarded.verb) == ("letters replay", "letters discard")
    assert replayed.target == discarded.target == "inventory purchase.requests-0@3"
    assert replayed.result.startswith("PermanentFailure")
    assert (discarded.result, discarded.arguments["because"]) == ("done", "nobody's")


def test_the_trail_is_listed_in_order_as_json_or_said_to_be_empty(capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> str:
        assert main(["audit", *words]) == 0
        return capsys.readouterr().out

    assert said() == "no operator has done anything yet\n"
    assert json.loads(said("--json")) == []
    for number in range(3):
        with audited("sale close", f"sale {number}", number=number):
            pass
    rows = json.loads(said("--json", "--last", "2"))
    assert [row["target"] for row in rows] == ["sale 1", "sale 2"]
    assert rows[0]["arguments"] == {"number": 1}
    assert "sale 2" in said("--target", "sale 2") and "sale 1" not in said("--target", "sale 2")
