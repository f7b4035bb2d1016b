"""The report may not import the gateway, so it repeats the gateway's limits. They must stay equal."""

from __future__ import annotations

import pytest

from gateway import admission, sales
from gateway import events as gateway_events
from inventory import stock as inventory_stock
from seckill.report.invariants import refusal_reasons, refusals

PAIRS = [
    ("purchases per second of a user", refusal_reasons.USER_RATE, admission.USER_RATE),
    ("burst of a user", refusal_reasons.USER_BURST, admission.USER_BURST),
    ("purchases per second of an address", refusal_reasons.ADDRESS_RATE, admission.ADDRESS_RATE),
    ("burst of an address", refusal_reasons.ADDRESS_BURST, admission.ADDRESS_BURST),
    ("tries of a user in a sale", refusal_reasons.USER_TRIES_MAX, admission.TRIES_MAX),
    ("age of a cached sale", refusal_reasons.STALE_MS, sales.STALE_S * 1000),
    ("units of a purchase at the gateway", refusals.UNITS_MAX, gateway_events.UNITS_MAX),
    ("units of a purchase in inventory", refusals.UNITS_MAX, inventory_stock.REQUEST_UNITS_MAX),
]


@pytest.mark.parametrize(("limit", "report", "service"), PAIRS, ids=[limit for limit, *_ in PAIRS])
def test_the_report_judges_refusals_by_the_limits_of_the_services(limit: str, report: float, service: float) -> None:
    assert report == service, f"{limit}: the report has {report}, the service {service}"
