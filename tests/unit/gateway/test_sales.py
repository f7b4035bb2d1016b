"""Requests for invented sales cost a limited number of Redis calls."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from gateway import sales
from seckill.web.problems import Problem


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
