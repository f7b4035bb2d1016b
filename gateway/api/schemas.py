"""The schemas of requests and answers, with examples. Times are in milliseconds, money in the smallest coin (fen)."""

from __future__ import annotations

from typing import Any

from seckill.web.purchase_states import PurchaseState

REQUEST_ID = "6436728d-3578-8307-808c-cde220592643"
ORDER_ID = "09831979-136f-5f85-b8f7-22ace1c376d7"
PAYMENT_ID = "5f0e1a52-6f0b-4d0e-9a6b-0f6f2f8c1f10"
PLACE = "NjQzNjcyOGR8cHVyY2hhc2UucmVxdWVzdHMvMS8wfDE3OTUwMjU0MzU4Mjh8MXxhbm4.421d61c8"
TICKET = "MS4xNzk1MDI0OTU1Nzk4LjlkZmYyNDQ5OGQ1MTdlNzAuYW5u.6f9377af"
STATUS = f"/api/v1/purchases/{REQUEST_ID}"

MS = {"type": "integer", "description": "Milliseconds since 1970, by the server's clock."}
UUID = {"type": "string", "format": "uuid"}


def _or_null(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return schema | {"type": [schema["type"], "null"], "description": description}


def _object(example: dict[str, Any] | None, optional: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
    }
    return made if example is None else made | {"examples": [example]}


_STOCK_EXAMPLE = {
    "sku": "phone", "unit_price": 9900, "cap": 1, "declared": 500, "available": 12, "reserved": 300, "sold": 188,
    "stock_version": 676, "availability": "available",
}  # fmt: skip
_SALE_EXAMPLE = {
    "id": 1, "name": "Gong", **_STOCK_EXAMPLE, "state": "open", "opens_at_ms": 1795024833875,
    "closes_at_ms": 1795028433875, "articles": [_STOCK_EXAMPLE],
}  # fmt: skip

_STOCK_PROPERTIES: dict[str, Any] = {
    "sku": {"type": "string"},
    "unit_price": {"type": "integer", "description": "In the smallest coin."},
    "cap": {"type": "integer", "description": "Maximum units per purchase."},
    "declared": {"type": "integer"},
    "available": {"type": "integer"},
    "reserved": {"type": "integer"},
    "sold": {"type": "integer"},
    "stock_version": {"type": "integer", "description": "Grows with every change of the stock."},
    "availability": {
        "type": "string",
        "enum": ["available", "all_held", "sold_out"],
        "description": "`all_held`: no unit is left, but unpaid ones may come back.",
    },
}

_SALE_PROPERTIES: dict[str, Any] = {
    "id": {"type": "integer"},
    "name": {"type": "string"},
    **_STOCK_PROPERTIES,
    "state": {"type": "string", "enum": ["open", "paused", "closed"]},
    "opens_at_ms": MS,
    "closes_at_ms": MS,
    "articles": {
        "type": "array",
        "items": {"$ref": "#/components/schemas/Article"},
        "description": "All articles of the sale. The fields of stock beside this list are those of the first one.",
    },
}

_WAIT = {
    "position": _or_null({"type": "integer"}, "Requests ahead of it. 0: it is being decided. Null: not known."),
    "eta_ms": _or_null({"type": "integer"}, "Expected wait at the recent pace. Null: not known yet."),
}

SCHEMAS: dict[str, Any] = {
    "Problem": {
        "type": "object",
        "description": "Problem details, RFC 9457.",
        "properties": {
            "type": {"type": "string", "format": "uri-reference"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
        },
        "required": ["type", "title", "status", "detail"],
    },
    "SignIn": _object(
        {"user": "ann"}, user={"type": "string", "pattern": "^[A-Za-z0-9._@+-]{1,100}$", "maxLength": 100}
    ),
    "Session": _object(
        {"user": "ann", "token": "MTc5NTExMTIzNC5hbm4.1c9e"}, user={"type": "string"}, token={"type": "string"}
    ),
    "Article": _object(_STOCK_EXAMPLE, **_STOCK_PROPERTIES),
    "Sale": _object(_SALE_EXAMPLE, **_SALE_PROPERTIES),
    "SaleNow": _object(_SALE_EXAMPLE | {"now_ms": 1795024835796}, **_SALE_PROPERTIES, now_ms=MS),
    "Sales": _object(
        {"sales": [_SALE_EXAMPLE], "now_ms": 1795024835796},
        sales={"type": "array", "items": {"$ref": "#/components/schemas/Sale"}},
        now_ms=MS,
    ),
    "Ticket": _object(
        {"ticket": TICKET, "expires_at_ms": 1795024955798}, ticket={"type": "string"}, expires_at_ms=MS
    ),
    "Purchase": _object(
        {"quantity": 1, "sku": "phone"},
        ("quantity", "sku"),
        quantity={"type": "integer", "minimum": 1, "maximum": 1_000_000, "default": 1},
        sku={"type": "string", "description": "Article of the sale. Without it: the first one."},
    ),
    "Accepted": _object(
        {
            "request_id": REQUEST_ID, "status_url": f"{STATUS}?place={PLACE}",
            "events_url": f"{STATUS}/events?place={PLACE}", "deadline_ms": 1795025435828,
            "topic": "purchase.requests", "partition": 1, "offset": 4711, "position_estimate": 3200, "eta_ms": 1600,
        },
        request_id=UUID,
        status_url={"type": "string", "description": "Contains the signed position, so every gateway can answer it."},
        events_url={"type": "string", "description": "For an EventSource. It needs no token, so keep it secret."},
        deadline_ms=MS | {"description": "If it is not decided by then, it becomes TOO_LATE."},
        topic={"type": "string"},
        partition={"type": "integer"},
        offset={"type": "integer"},
        position_estimate=_WAIT["position"],
        eta_ms=_WAIT["eta_ms"],
    ),
    "Outcome": _object(
        {"request_id": REQUEST_ID, "state": "QUEUED", "position": 3100, "eta_ms": 1550, "deadline_ms": 1795025435828},
        ("position", "eta_ms", "deadline_ms", "order_id", "pay_before_ms", "may_buy_again"),
        request_id=UUID,
        state={"type": "string", "enum": PurchaseState.values},
        **_WAIT,
        deadline_ms=_or_null({"type": "integer"}, "While queued: if it is not decided by then, it becomes TOO_LATE."),
        order_id=_or_null({"type": "string", "format": "uuid"}, "Once the order exists."),
        pay_before_ms=_or_null({"type": "integer"}, "If it is not paid by then, the order expires."),
        may_buy_again={"type": "boolean", "description": "The units are back in stock."},
    ),
    "Order": _object(
        {
            "id": ORDER_ID, "request_id": REQUEST_ID, "sale_id": 1, "sku": "phone", "quantity": 1, "amount": 9900,
            "state": "PENDING_PAYMENT", "placed_at_ms": 1795024836073, "pay_before_ms": 1795025736073,
        },
        id=UUID,
        request_id=UUID,
        sale_id={"type": "integer"},
        sku={"type": "string"},
        quantity={"type": "integer"},
        amount={"type": "integer", "description": "In the smallest coin."},
        state={"type": "string", "enum": ["PENDING_PAYMENT", "PAID", "REFUNDED", "EXPIRED", "CANCELLED", "NOT_PLACED"]},
        placed_at_ms=MS,
        pay_before_ms=MS,
    ),
    "Orders": _object(
        None,
        ("next",),
        orders={"type": "array", "items": {"$ref": "#/components/schemas/Order"}},
        next={"type": "string", "description": "`after` for the next page, if there is one."},
    ),
    "Attempt": _object(
        {"payment_id": PAYMENT_ID, "state": "open"}, payment_id=UUID, state={"type": "string", "const": "open"}
    ),
    "Callback": _object(
        {"id": "cb-1", "payment": PAYMENT_ID, "kind": "captured"},
        id={"type": "string"},
        payment=UUID,
        kind={"type": "string"},
    ),
    "Received": _object({"received": True}, received={"type": "boolean"}),
    "Ready": _object(
        {"ready": True, "missing": []},
        ready={"type": "boolean"},
        missing={"type": "array", "items": {"type": "string"}},
    ),
}  # fmt: skip
