"""How many Redis calls and threads it costs to find a sale."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

from gateway import sales
from inventory.events import SaleView
from seckill.web.problems import Problem

VIEW = SaleView(7, "phone", "", 0, 1, 0, 1, 0, 0, 0, "open", 0, 1)


def test_look_ups_of_unknown_sales_are_limited_per_second_and_the_rest_get_503_not_404(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.5
    looked_up: list[int] = []
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(sales, "_snapshot", sales._Snapshot(taken_at=now, tried_at=now))
    monkeypatch.setattr(sales, "_lookup_limit", sales._LookupLimit())
    monkeypatch.setattr(sales, "_look_up", looked_up.append)

    def answers(ids: range) -> Counter[int]:
        found: Counter[int] = Counter()
        for sale_id in ids:
            with pytest.raises(Problem) as refused:
                sales.find_sale(sale_id)
            found[refused.value.status] += 1
        return found

    most = sales.LOOKUPS_PER_SECOND_MAX
    assert answers(range(1000)) == {404: most, 503: 1000 - most}
    assert len(looked_up) == most
    now += 1
    sales._snapshot.taken_at = sales._snapshot.tried_at = now
    assert answers(range(1)) == {404: 1}, "a new second allows new look-ups"


@pytest.mark.parametrize(("age_s", "refreshes"), [(0.0, 0), (1.0, 1), (sales.STALE_S + 1, 20)])
def test_while_one_purchase_waits_for_a_refresh_the_others_use_a_snapshot_that_is_young_enough(
    age_s: float, refreshes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, refreshed = 1000.5, []
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(sales, "_snapshot", sales._Snapshot(views={7: VIEW}, taken_at=now - age_s))
    monkeypatch.setattr(sales, "current_views", lambda: refreshed.append(now))

    async def find() -> list[SaleView]:
        return await asyncio.gather(*(sales.find_sale_on_loop(7) for _ in range(20)))

    assert asyncio.run(find()) == [VIEW] * 20
    assert len(refreshed) == refreshes
