"""Lab 2: .venv/bin/pytest docs/labs/exercises/test_lab02.py"""

from __future__ import annotations

import random
from uuid import uuid4

import pytest

from docs.labs.exercises import lab02_row_lock as lab
from gateway.events import PurchaseRequested
from inventory.events import Decision
from inventory.stock import StockSnapshot, decide_requests


def test_1_the_commit_limits_what_one_row_can_decide() -> None:
    assert lab.decisions_per_second(2, 1) == pytest.approx(500)
    assert lab.decisions_per_second(2, 300) == pytest.approx(150_000)


def test_2_batches_keep_the_order_of_arrival() -> None:
    arrived = [f"request-{number}" for number in range(7)]
    batches = lab.form_batches(arrived, 3)
    assert [len(batch) for batch in batches] == [3, 3, 1]
    assert [request for batch in batches for request in batch] == arrived
    assert lab.form_batches([], 3) == []


@pytest.mark.parametrize("seed", range(20))
def test_3_a_batch_is_decided_as_inventory_decides_it(seed: int) -> None:
    chance = random.Random(seed)
    quantities = [chance.randint(1, 4) for _ in range(12)]
    available = chance.randint(0, 20)
    requests = [PurchaseRequested(uuid4(), f"u{at}", 1, "phone", each, 0, 10) for at, each in enumerate(quantities)]
    decided = decide_requests(requests, StockSnapshot(available, 0, 10, 1, True), (), 0)
    assert lab.grant_in_order(quantities, available) == [each.decision is Decision.RESERVED for each in decided]
