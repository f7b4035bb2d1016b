"""Made-up sales do not make a gateway ask Redis all the time."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from gateway import sales
from seckill.problems import Problem


def test_so_many_unknown_sales_are_looked_up_each_second_and_the_others_are_not_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.5
    looked_up: list[int] = []
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(sales, "_snapshot", sales._Snapshot(taken_at=now, tried_at=now))
    monkeypatch.setattr(sales, "_looks", sales._Looks())
    monkeypatch.setattr(sales, "_look_up", looked_up.append)

    def answers(ids: range) -> Counter[int]:
        found: Counter[int] = Counter()
        for sale_id in ids:
            with pytest.raises(Problem) as refused:
                sales.find(sale_id)
            found[refused.value.status] += 1
        return found

    most = sales.LOOKS_PER_SECOND_MAX
    assert answers(range(1000)) == {404: most, 503: 1000 - most}
    assert len(looked_up) == most
    now += 1
    sales._snapshot.taken_at = sales._snapshot.tried_at = now
    assert answers(range(1)) == {404: 1}, "a sale that was made just now is looked up again"
