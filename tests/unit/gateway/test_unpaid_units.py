"""How many units one address may hold unpaid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.purchase import UNPAID_UNITS_MAX, unpaid_units_max
from inventory.events import SaleView


def view(available: int, reserved: int = 0, sold: int = 0) -> SaleView:
    return SaleView(1, "Gong", "phone", 9900, 1, 0, available, reserved, sold, 1, "open", 0, 10)


@pytest.mark.parametrize(
    ("seen", "percent", "units"),
    [
        (view(500), 25, 125),
        (view(300, 150, 50), 25, 125),
        (view(3), 25, 1),
        (view(0), 25, 1),
        (view(500), 0, 0),
        (view(500), 100, 500),
        (view(10_000_000), 25, UNPAID_UNITS_MAX),
    ],
)
def test_an_address_may_hold_a_share_of_the_sale_unpaid(
    seen: SaleView, percent: int, units: int, settings: Any
) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, address_share_percent=percent)
    assert unpaid_units_max(seen) == units
