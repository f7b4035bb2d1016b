"""The rule of stock, pure."""

from __future__ import annotations

from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st

from gateway.events import PurchaseRequested
from inventory.events import Decision
from inventory.stock import StockNow, decide

NOW = 1_000_000


def request(user: str = "ann", quantity: int = 1, deadline_ms: int = NOW) -> PurchaseRequested:
    return PurchaseRequested(uuid4(), user, 1, "phone", quantity, NOW - 5, deadline_ms)


def stock(available: int = 3, cap: int = 2, sale_open: bool = True) -> StockNow:
    return StockNow(available, 7, cap, 100, sale_open)


def decisions(requests: list[PurchaseRequested], now: StockNow | None, holders: tuple[str, ...] = ()) -> list[Decision]:
    return [each.decision for each in decide(requests, now, holders, NOW)]


def test_units_go_to_the_first_who_ask_and_a_short_batch_grants_a_prefix() -> None:
    crowd = [request(f"user-{number}") for number in range(5)]
    assert decisions(crowd, stock(3)) == [Decision.RESERVED] * 3 + [Decision.SOLD_OUT] * 2


def test_a_large_request_that_does_not_fit_leaves_the_rest_to_a_smaller_one() -> None:
    crowd = [request("ann", 2), request("bob", 2), request("cat", 1)]
    assert decisions(crowd, stock(3)) == [Decision.RESERVED, Decision.SOLD_OUT, Decision.RESERVED]


def test_a_user_gets_one_purchase_whether_he_held_one_before_or_asks_twice_in_a_batch() -> None:
    assert decisions([request("ann"), request("ann")], stock()) == [Decision.RESERVED, Decision.DUPLICATE]
    assert decisions([request("ann")], stock(), ("ann",)) == [Decision.DUPLICATE]


def test_each_refusal_has_its_own_word() -> None:
    assert decisions([request(quantity=3)], stock(cap=2)) == [Decision.LIMIT_REACHED]
    assert decisions([request()], stock(sale_open=False)) == [Decision.CLOSED]
    assert decisions([request(deadline_ms=NOW - 1)], stock()) == [Decision.TOO_LATE]
    assert decisions([request(quantity=0)], stock()) == [Decision.INVALID]
    assert decisions([request()], None) == [Decision.INVALID]


def test_a_request_that_is_due_at_this_very_moment_is_in_time() -> None:
    assert decisions([request(deadline_ms=NOW)], stock()) == [Decision.RESERVED]


def test_each_grant_has_the_version_of_its_own_ledger_entry() -> None:
    decided = decide([request("a"), request("b"), request("c"), request("d")], stock(3), (), NOW)
    assert [each.version for each in decided] == [8, 9, 10, 10]


@given(
    available=st.integers(0, 10),
    wishes=st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(-1, 4)), max_size=25),
)
def test_never_more_than_there_is_never_two_for_one_user_and_no_refusal_where_it_would_fit(
    available: int, wishes: list[tuple[str, int]]
) -> None:
    crowd = [request(user, quantity) for user, quantity in wishes]
    left, holders = available, set()
    for each in decide(crowd, stock(available), (), NOW):
        if each.decision is Decision.RESERVED:
            left -= each.request.quantity
            assert each.request.user_id not in holders
            holders.add(each.request.user_id)
        elif each.decision is Decision.SOLD_OUT:
            assert left < each.request.quantity
    assert left >= 0
