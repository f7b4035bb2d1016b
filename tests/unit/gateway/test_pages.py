"""What the page says of a sale, at every moment of it."""

from __future__ import annotations

import dataclasses

import pytest

from gateway.pages.shop import KINDS, kind
from inventory.events import SaleView

SALE = SaleView(1, "Gong", "phone", 9900, 1, 10, 10, 0, 0, 1, "open", 1000, 2000)


@pytest.mark.parametrize(
    ("now_ms", "changed", "said"),
    [
        (999, {}, "upcoming"),
        (1000, {}, "open"),
        (1500, {"available": 0, "reserved": 1, "sold": 9}, "all_held"),
        (1500, {"available": 0, "sold": 10}, "sold_out"),
        (1500, {"state": "paused"}, "paused"),
        (999, {"state": "paused"}, "upcoming"),
        (1500, {"state": "closed"}, "closed"),
        (999, {"state": "closed"}, "closed"),
        (2000, {}, "closed"),
    ],
)
def test_the_page_says_what_is(now_ms: int, changed: dict[str, object], said: str) -> None:
    view = dataclasses.replace(SALE, **changed)  # type: ignore[arg-type]
    assert kind(view, now_ms) == said
    assert said in KINDS
