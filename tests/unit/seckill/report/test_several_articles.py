"""Stock versions of two articles are not compared with one another."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from seckill.report.evidence import Evidence
from seckill.report.identity import Id, identity
from seckill.report.invariants.refusals import reasons_are_true
from seckill.report.invariants.stock import one_active_purchase
from seckill.report.rows import Decision, Hold, LedgerEntry, RecordPosition, Sale, Stock
from seckill.report.verdicts import Findings

WATCH, PHONE = (identity(f"00000000-0000-4000-8000-00000000000{digit}") for digit in "12")
MINUTE = 60_000


def entry(stock: int, version: int, kind: str, request: Id, at_ms: int) -> LedgerEntry:
    moves = {"reserve": ("available", "reserved"), "release": ("reserved", "available")}
    return LedgerEntry(stock, version, *moves[kind], 1, kind, request, request, at_ms)


def decision(request: Id, sku: str, version: int, at_ms: int, *, is_duplicate: bool = False) -> Decision:
    name = "DUPLICATE" if is_duplicate else "RESERVED"
    return Decision(
        request, "ann", 1, sku, 1, name, version, at_ms, at_ms, at_ms + MINUTE, RecordPosition("t", 0, at_ms)
    )


def evidence() -> Evidence:
    """Ann gives a watch back and then buys a phone. Six watches were sold before, and no phone."""
    found = Evidence({}, 20 * MINUTE, frozenset())
    found.sales.append(Sale(1, "open", 0, 10**9))
    found.stocks.extend([
        Stock(1, 1, "phone", 9, 8, 1, 0, 2, 1, 100, 1), Stock(2, 1, "watch", 9, 3, 0, 6, 9, 1, 100, 1),
    ])  # fmt: skip
    found.ledger.extend([
        entry(1, 2, "reserve", PHONE, 9 * MINUTE), entry(2, 8, "reserve", WATCH, MINUTE),
        entry(2, 9, "release", WATCH, 5 * MINUTE),
    ])  # fmt: skip
    found.holds.extend([Hold(PHONE, 1, 1, "ann", 1, "reserved"), Hold(WATCH, 2, 1, "ann", 1, "released")])
    found.decisions.extend([decision(WATCH, "watch", 8, MINUTE), decision(PHONE, "phone", 2, 9 * MINUTE)])
    return found


def violations(check: Callable[[Evidence, Findings], None], found: Evidence) -> list[str]:
    findings = Findings()
    check(found, findings)
    return [each.text for each in findings.violations]


@pytest.mark.parametrize("check", [one_active_purchase, reasons_are_true])
def test_a_buyer_may_return_one_article_and_buy_another(check: Callable[[Evidence, Findings], None]) -> None:
    assert violations(check, evidence()) == []


def test_a_second_active_purchase_of_another_article_is_found() -> None:
    found = evidence()
    found.holds[1] = found.holds[1]._replace(state="sold")
    found.ledger.pop()
    assert violations(one_active_purchase, found) == ["a second active purchase in sale 1"]
    assert violations(reasons_are_true, found) == ["RESERVED although the user had another active purchase"]


def test_a_duplicate_needs_an_active_purchase_of_any_article_at_that_time() -> None:
    third = identity("00000000-0000-4000-8000-000000000003")
    for at_ms, expected in ((3 * MINUTE, []), (7 * MINUTE, ["DUPLICATE but the user had no other active purchase"])):
        found = evidence()
        found.decisions.append(decision(third, "phone", 1, at_ms, is_duplicate=True))
        assert violations(reasons_are_true, found) == expected
