"""Pure: a sample sale in Postgres: every table that the report reads, as columns and rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from loadtest.benchmarks.report.sale import (
    CHANNELS,
    DECISION,
    DECLARED,
    ENDED,
    LIFE_MS,
    ORDER,
    PAYMENT,
    PLACED,
    PRICE,
    REQUEST,
    SALE,
    SKU,
    STOCK,
    SampleSale,
    name,
    text_of,
)
from seckill.messaging.topics import PURCHASE_REQUESTS


def tables(sale: SampleSale) -> Iterator[tuple[str, tuple[str, ...], Iterator[tuple[Any, ...]]]]:
    """Table, columns, rows."""
    orders = ("inventory_ledger", "inventory_hold", "orders_order", "orders_transition", "orders_payment")
    yield (
        "inventory_sale",
        ("id", "name", "state", "opens_at_ms", "closes_at_ms"),
        iter([(SALE, "Gong", "open", sale.began_ms - 60_000, sale.at_ms(sale.requests) + 3_600_000)]),
    )
    yield "inventory_stock", (
        "id", "sale_id", "sku", "unit_price", "cap", "declared", "available", "reserved", "sold", "version",
        "gate_epoch", "gate_owed",
    ), iter([(
        STOCK, SALE, SKU, PRICE, 1, sale.units, sale.cancelled, 0, sale.units - sale.cancelled,
        1 + 2 * sale.units, 1, False,
    )])  # fmt: skip
    yield orders[0], (
        "stock_id", "version", "debit", "credit", "units", "kind", "cause", "request_id", "at",
    ), _ledger(sale)  # fmt: skip
    yield (
        orders[1],
        ("request_id", "stock_id", "sale_id", "user_id", "quantity", "state", "origin"),
        (
            (name(REQUEST, n), STOCK, SALE, f"buyer-{n}", 1, "released" if sale.cancels(n) else "sold", origin)
            for n, origin in origins(sale)
        ),
    )
    yield "inventory_decided", (
        "request_id", "user_id", "sale_id", "sku", "quantity", "decision", "stock_version", "decided_at_ms",
        "admitted_at_ms", "deadline_ms", "cluster_id", "topic_id", "partition", "record_offset",
    ), (
        (
            name(REQUEST, each.number), f"buyer-{each.user}", SALE, SKU, 1, each.decision,
            sale.stock_version(each.number), sale.at_ms(each.number) + 5, sale.at_ms(each.number),
            sale.at_ms(each.number) + LIFE_MS, "bench", PURCHASE_REQUESTS.name, each.partition, each.offset,
        )
        for each in sale.sample_requests()
    )  # fmt: skip
    yield (
        "inventory_redelivery",
        ("request_id", "cluster_id", "topic_id", "partition", "record_offset"),
        (
            (name(REQUEST, each.number), "bench", PURCHASE_REQUESTS.name, each.partition, each.again)
            for each in sale.sample_requests()
            if each.again is not None
        ),
    )
    yield (
        "inventory_settled",
        ("event_id", "kind", "request_id", "posted"),
        (
            (name(kind, n), event, name(REQUEST, n), kind == ENDED)
            for n in range(sale.units)
            for kind, event in sale.events(n)
        ),
    )
    yield orders[2], (
        "id", "request_id", "user_id", "sale_id", "sku", "quantity", "amount", "state", "placed_at", "pay_before",
        "cause", "origin",
    ), (
        (
            name(ORDER, n), name(REQUEST, n), f"buyer-{n}", SALE, SKU, 1, PRICE,
            "CANCELLED" if sale.cancels(n) else "PAID", _time(sale.at_ms(n) + 10),
            _time(sale.at_ms(n) + 10 + LIFE_MS), name(DECISION, n), origin,
        )
        for n, origin in origins(sale)
    )  # fmt: skip
    yield orders[3], ("order_id", "before", "after", "event_id", "at"), _transitions(sale)
    yield (
        "orders_read_decision",
        ("event_id", "request_id", "decision"),
        ((name(DECISION, each.number), name(REQUEST, each.number), each.decision) for each in sale.sample_requests()),
    )
    yield orders[4], (
        "id", "order_id", "amount", "state", "provider_reference", "opened_at", "captured_at", "matched",
    ), (
        (
            name(PAYMENT, n), name(ORDER, n), PRICE, "captured", "", _time(sale.at_ms(n) + 1000),
            _time(sale.at_ms(n) + 1500), True,
        )
        for n in range(sale.units)
        if not sale.cancels(n)
    )  # fmt: skip
    yield "notifications_delivery", (
        "event_id", "channel", "user_id", "text", "state", "attempts", "due_at", "done_at", "last_fault",
    ), (
        (
            name(kind, n), channel, f"buyer-{n}", text_of(event, n), "done", 1, _time(sale.at_ms(n)),
            _time(sale.at_ms(n)), "",
        )
        for n in range(sale.units)
        for kind, event in sale.events(n)
        for channel in CHANNELS
    )  # fmt: skip
    yield "gateway_outcome", (
        "request_id", "user_id", "sale_id", "state", "rank", "order_id", "pay_before_ms", "may_buy_again",
        "updated_at",
    ), (
        (
            name(REQUEST, each.number), f"buyer-{each.user}", SALE, sale.state(each), 9,
            name(ORDER, each.number) if each.decision == "RESERVED" else None,
            sale.at_ms(each.number) + 10 + LIFE_MS if each.decision == "RESERVED" else None,
            each.decision == "RESERVED" and sale.cancels(each.number), _time(sale.began_ms),
        )
        for each in sale.sample_requests()
    )  # fmt: skip


def origins(sale: SampleSale) -> Iterator[tuple[int, str]]:
    """The number of each holder, and the position of the request."""
    for each in sale.sample_requests():
        if each.decision == "RESERVED":
            yield each.number, json.dumps([PURCHASE_REQUESTS.name, each.partition, each.offset])


def _ledger(sale: SampleSale) -> Iterator[tuple[Any, ...]]:
    began = _time(sale.began_ms)
    yield STOCK, 1, "supply", "available", sale.units, "declare", name(DECLARED, 0), None, began
    for n in range(sale.units):
        request, at = name(REQUEST, n), _time(sale.at_ms(n) + 5)
        yield STOCK, 2 + n, "available", "reserved", 1, "reserve", request, request, at
        credit, kind = ("available", "release") if sale.cancels(n) else ("sold", "sell")
        at = _time(sale.at_ms(n) + 2000)
        yield STOCK, sale.ended_version(n), "reserved", credit, 1, kind, name(ENDED, n), request, at


def _transitions(sale: SampleSale) -> Iterator[tuple[Any, ...]]:
    for n in range(sale.units):
        after = "CANCELLED" if sale.cancels(n) else "PAID"
        yield name(ORDER, n), "", "PENDING_PAYMENT", name(PLACED, n), _time(sale.at_ms(n) + 10)
        yield name(ORDER, n), "PENDING_PAYMENT", after, name(ENDED, n), _time(sale.at_ms(n) + 2000)


def _time(at_ms: int) -> str:
    """A timestamp for Postgres, in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()
