"""The audit trail: a verb and its row are one transaction; what was refused leaves its row, too."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from inventory import operating
from inventory.models import LedgerEntry, Sale, Stock
from seckill.audit.command import told
from seckill.audit.models import Entry
from seckill.audit.trail import acting, listed
from seckill.cli import parser
from seckill.streams import letters
from seckill.streams.models import DeadLetter
from seckill.streams.records import Batch
from seckill.topics import PURCHASE_REQUESTS, Topic


def sale() -> Stock:
    now_ms = time.time_ns() // 1_000_000
    return operating.create("Gong", "phone", 5, 100, 1, now_ms, now_ms + 3_600_000)


def trail() -> list[tuple[str, str, str]]:
    return [(row.verb, row.target, row.result) for row in listed()]


def test_every_verb_on_a_sale_leaves_its_row() -> None:
    stock = sale()
    for word in ("pause", "open", "close"):
        call_command("sale", word, str(stock.sale_id))
    assert trail() == [
        ("sale create", "Gong phone", "done"),
        *((f"sale {word}", f"sale {stock.sale_id}", "done") for word in ("pause", "open", "close")),
    ]
    assert Entry.objects.earliest("id").arguments["units"] == 5


def test_an_adjustment_leaves_its_row_and_what_is_refused_changes_nothing_but_the_trail() -> None:
    stock = sale()
    operating.adjust(stock.sale_id, "phone", 3)
    with pytest.raises(operating.Refused):
        operating.adjust(stock.sale_id, "phone", -9)
    assert [row.result for row in listed(verb="sale adjust")] == [
        "done",
        "Refused: fewer units are available than are to be taken away",
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
def test_a_sale_that_could_not_be_kept_or_paid_is_refused(wrong: dict[str, Any]) -> None:
    good: dict[str, Any] = {
        "name": "Gong",
        "sku": "phone",
        "units": 5,
        "unit_price": 100,
        "cap": 1,
        "opens_at_ms": 0,
        "closes_at_ms": 9,
    }
    with pytest.raises(operating.Refused):
        operating.create(**(good | wrong))
    assert Stock.objects.count() == 0
    assert operating.create(**good).available == 5  # the control


@pytest.mark.parametrize(
    "words", [["--opens-in", "nan"], ["--lasts", "inf"], ["--units", "many"], ["--price", "9" * 99]]
)
def test_words_that_make_no_sense_are_told_so(words: list[str]) -> None:
    with pytest.raises(CommandError):
        call_command("sale", "create", "--name", "Gong", "--sku", "phone", "--units", "5", *words)
    assert Stock.objects.count() == 0


def test_a_verb_whose_row_cannot_be_written_does_not_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    stock = sale()
    monkeypatch.setattr("seckill.audit.trail.operator", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        operating.set_state(stock.sale_id, "paused")
    assert Sale.objects.get().state == "open"


def test_a_closed_sale_is_not_opened_again_and_that_is_told() -> None:
    stock = sale()
    operating.set_state(stock.sale_id, "closed")
    with pytest.raises(CommandError):
        call_command("sale", "open", str(stock.sale_id))
    assert trail()[-1][2].startswith("Refused")


def test_a_row_goes_the_way_of_its_transaction() -> None:
    with pytest.raises(KeyError), transaction.atomic(), acting("sale close", "sale 1"):
        raise KeyError
    assert not Entry.objects.exists()


def test_the_actor_is_who_is_named_else_the_environments_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "mallory")
    with acting("a", "x", actor="eve"):
        pass
    with acting("b", "x"):
        pass
    assert [row.actor for row in listed()] == ["eve", "mallory"]


class Reader:
    group = "inventory"
    topics: tuple[Topic, ...] = (PURCHASE_REQUESTS,)

    def handle(self, batch: Batch) -> None:
        raise ValueError("still bad")


def test_a_replay_in_vain_and_a_discard_are_told_with_what_came_of_them() -> None:
    letter = DeadLetter.objects.create(
        group="inventory", topic="purchase.requests", topic_id="t", partition=0, offset=3, reason="bad", value=b"no"
    )
    assert letters.replay(letter, Reader()) is not None
    assert letters.discard(letter, Reader(), "nobody's") is None
    [replayed, discarded] = listed()
    assert (replayed.verb, discarded.verb) == ("letters replay", "letters discard")
    assert replayed.target == discarded.target == "inventory purchase.requests-0@3"
    assert replayed.result.startswith("Permanent")
    assert (discarded.result, discarded.arguments["because"]) == ("done", "nobody's")


def test_the_trail_is_listed_in_order_as_json_and_empty_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> str:
        assert told(parser().parse_args(["audit", *words])) == 0
        return capsys.readouterr().out

    assert said() == "no operator has done anything yet\n"
    assert json.loads(said("--json")) == []
    for number in range(3):
        with acting("sale close", f"sale {number}", number=number):
            pass
    rows = json.loads(said("--json", "--last", "2"))
    assert [row["target"] for row in rows] == ["sale 1", "sale 2"]
    assert rows[0]["arguments"] == {"number": 1}
    assert "sale 2" in said("--target", "sale 2") and "sale 1" not in said("--target", "sale 2")
