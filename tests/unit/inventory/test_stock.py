"""The rule that decides requests, without database and Redis."""

from __future__ import annotations

from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st

from gateway.events import PurchaseRequested
from inventory.events import Decision
from inventory.stock import StockSnapshot, decide_requests

NOW = 1_000_000


def request(user: str = "ann", quantity: int = 1, deadline_ms: int = NOW) -> PurchaseRequested:
    return PurchaseRequested(uuid4(), user, 1, "phone", quantity, NOW - 5, deadline_ms)


def stock(available: int = 3, cap: int = 2, is_sale_open: bool = True) -> StockSnapshot:
    return StockSnapshot(available, 7, cap, 100, is_sale_open)


def decisions(
    requests: list[PurchaseRequested], now: StockSnapshot | None, holders: tuple[str, ...] = ()
) -> list[Decision]:
    return [each.decision for each in decide_requests(requests, now, holders, NOW)]


def test_units_go_to_the_first_requests_until_they_run_out() -> None:
    crowd = [request(f"user-{number}") for number in range(5)]
    assert decisions(crowd, stock(3)) == [Decision.RESERVED] * 3 + [Decision.SOLD_OUT] * 2


def test_a_request_that_is_too_large_leaves_the_units_to_a_smaller_one() -> None:
    crowd = [request("ann", 2), request("bob", 2), request("cat", 1)]
    assert decisions(crowd, stock(3)) == [Decision.RESERVED, Decision.SOLD_OUT, Decision.RESERVED]


def test_a_user_gets_one_active_purchase() -> None:
    assert decisions([request("ann"), request("ann")], stock()) == [Decision.RESERVED, Decision.DUPLICATE]
    assert decisions([request("ann")], stock(), ("ann",)) == [Decision.DUPLICATE]


def test_each_reason_has_its_own_decision() -> None:
    assert decisions([request(quantity=3)], stock(cap=2)) == [Decision.LIMIT_REACHED]
    assert decisions([request()], stock(is_sale_open=False)) == [Decision.CLOSED]
    assert decisions([request(deadline_ms=NOW - 1)], stock()) == [Decision.TOO_LATE]
    assert decisions([request(quantity=0)], stock()) == [Decision.INVALID]
    assert decisions([request()], None) == [Decision.INVALID]


def test_a_request_at_its_deadline_is_in_time() -> None:
    assert decisions([request(deadline_ms=NOW)], stock()) == [Decision.RESERVED]


def test_each_grant_has_the_version_of_its_own_ledger_entry() -> None:
    decided = decide_requests([request("a"), request("b"), request("c"), request("d")], stock(3), (), NOW)
    assert [each.version for each in decided] == [8, 9, 10, 10]


@given(
    available=st.integers(0, 10),
    wishes=st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(-1, 4)), max_size=25),
)
def test_the_rule_never_oversells_never_grants_twice_and_rejects_only_what_does_not_fit(
    available: int, wishes: list[tuple[str, int]]
) -> None:
    crowd = [request(user, quantity) for user, quantity in wishes]
    left, holders = available, set()
    for each in decide_requests(crowd, stock(available), (), NOW):
        if each.decision is Decision.RESERVED:
            left -= each.request.quantity
            assert each.request.user_id not in holders
            holders.add(each.request.user_id)
        elif each.decision is Decision.SOLD_OUT:
            assert left < each.request.quantity
    assert left >= 0
