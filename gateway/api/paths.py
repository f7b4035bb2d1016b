"""The addresses: what each takes, what it answers, and which problems it knows."""

from __future__ import annotations

from typing import Any

from gateway.api.problems import responses
from gateway.api.schemas import PLACE, TICKET

USER = ("not-signed-in",)
SALE = ("no-such-sale", "sales-unavailable")
DOOR = ("not-open-yet", "sale-closed", "sale-paused")
BODY = ("bad-json", "length-required", "body-too-large", "body-timeout")
ALWAYS = ("bad-request", "bad-header", "headers-too-large", "address-too-long", "internal")
ADMISSION = (
    "bad-idempotency-key", "bad-quantity", "key-reused", *DOOR, "ticket-missing", "ticket-invalid", "ticket-expired",
    "ticket-spent", "too-many-requests", "sold-out", "queue-too-long", "queue-unavailable", "queue-moving",
    "too-many-tries", "too-many-unpaid",
    "queue-unknown", "admission-unavailable",
)  # fmt: skip


def _answer(description: str, schema: str, headers: dict[str, Any] | None = None) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": description, "content": content} | ({"headers": headers} if headers else {})


def _body(schema: str, *, required: bool = True) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"requestBody": {"required": required, "content": content}}


def _operation(
    name: str, tag: str, summary: str, good: dict[str, Any], problems: tuple[str, ...] = (), **more: Any
) -> dict[str, Any]:
    """Whoever has to be signed in has `not-signed-in` among his problems."""
    made: dict[str, Any] = {"operationId": name, "tags": [tag], "summary": summary}
    if "not-signed-in" in problems:
        made["security"] = [{"token": []}]
    return made | more | {"responses": good | responses((*problems, *ALWAYS))}


def _in(where: str, name: str, schema: dict[str, Any], description: str, **more: Any) -> dict[str, Any]:
    return {"in": where, "name": name, "schema": schema, "description": description, **more}


SALE_ID = _in("path", "sale_id", {"type": "integer", "minimum": 0}, "The sale.", required=True, example=1)
REQUEST_ID = _in("path", "request_id", {"type": "string", "format": "uuid"}, "From the 202.", required=True)
ORDER_ID = _in("path", "order_id", {"type": "string", "format": "uuid"}, "From the outcome.", required=True)
AFTER = _in("query", "after", {"type": "string"}, "`next` of the page before; without it, the newest orders.")
IF_NONE_MATCH = _in("header", "If-None-Match", {"type": "string"}, "The ETag of the last answer.")
KEY = _in(
    "header", "Idempotency-Key", {"type": "string", "pattern": "^[!-~]{1,64}$"},
    "Names this purchase: the same key is the same request, whatever happens on the way.", required=True,
    example="3f1c-first",
)  # fmt: skip
TICKET_OF_SALE = _in(
    "header", "Purchase-Ticket", {"type": "string", "maxLength": 400},
    "Of `POST /sales/{sale_id}/ticket`. A key that was admitted before needs none.", example=TICKET,
)  # fmt: skip
TRACE = _in(
    "header", "traceparent", {"type": "string"}, "W3C trace context: the whole purchase belongs to this trace.",
    example="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
)  # fmt: skip
SIGNED_PLACE = _in("query", "place", {"type": "string"}, "As in the 202: where the request stands.", example=PLACE)
LAST_EVENT = _in("header", "Last-Event-ID", {"type": "string"}, "The last event seen: only newer ones are sent.")
SIGNATURE = _in("header", "X-Provider-Signature", {"type": "string"}, "HMAC of the provider, with its time.")

TAG = {"ETag": {"description": "Of what is shown.", "schema": {"type": "string"}}}
POLL = {
    "X-Poll-After-Ms": {
        "description": "Ask again after so long; sooner the nearer the turn, and spread.",
        "schema": {"type": "integer"},
    }
}
UNCHANGED = {"304": {"description": "As the ETag says: nothing has changed.", "headers": TAG}}

PATHS: dict[str, Any] = {
    "/api/v1/sessions": {
        "post": _operation(
            "signIn", "buyer", "Demo sign-in: any name, without a password. In development only.",
            {"201": _answer("The token, for twelve hours.", "Session")}, ("bad-user", "no-such-address", *BODY),
            **_body("SignIn"),
        )
    },
    "/api/v1/sales": {
        "get": _operation(
            "listSales", "sales", "All sales, live: at most a quarter of a second old.",
            {"200": _answer("The sales and the time.", "Sales", TAG), **UNCHANGED}, ("sales-unavailable",),
            parameters=[IF_NONE_MATCH],
        )
    },
    "/api/v1/sales/{sale_id}": {
        "get": _operation(
            "showSale", "sales", "One sale: window, stock, and the time to count down by.",
            {"200": _answer("The sale and the time.", "SaleNow", TAG), **UNCHANGED}, SALE,
            parameters=[SALE_ID, IF_NONE_MATCH],
        )
    },
    "/api/v1/sales/{sale_id}/ticket": {
        "post": _operation(
            "fetchTicket", "purchase", "The way in: for this user and sale, for two minutes, for one purchase.",
            {"201": _answer("The ticket.", "Ticket")}, (*USER, *SALE, *DOOR), parameters=[SALE_ID],
        )
    },
    "/api/v1/sales/{sale_id}/purchases": {
        "post": _operation(
            "buy", "purchase", "Join the queue. 202 once the broker has the request; the outcome follows.",
            {"202": _answer("In the queue, or there already.", "Accepted", POLL)},
            (*USER, *SALE, *BODY, *ADMISSION), parameters=[SALE_ID, KEY, TICKET_OF_SALE, TRACE],
            **_body("Purchase", required=False),
        )
    },
    "/api/v1/purchases/{request_id}": {
        "get": _operation(
            "followPurchase", "purchase", "What became of it; while it is queued, its place and its time.",
            {"200": _answer("The outcome so far.", "Outcome", POLL)},
            (*USER, "no-such-purchase", "database-unavailable"), parameters=[REQUEST_ID, SIGNED_PLACE],
        )
    },
    "/api/v1/purchases/{request_id}/events": {
        "get": _operation(
            "streamPurchase", "purchase",
            "The same as server-sent events of type `purchase`, each as it becomes true. Served by a process of its"
            " own: its address is the `events_url` of the 202.",
            {
                "200": {
                    "description": "A stream. Ids grow; it ends with the final outcome.",
                    "content": {
                        "text/event-stream": {
                            "schema": {"type": "string"},
                            "example": 'id: 20\nevent: purchase\ndata: {"state":"RESERVED"}\n\n',
                        }
                    },
                },
                "204": {"description": "You have seen the final outcome: come no more."},
            },
            (*USER, "no-such-purchase", "no-such-address", "too-many-streams", "database-unavailable"),
            parameters=[REQUEST_ID, SIGNED_PLACE, LAST_EVENT],
        )
    },
    "/api/v1/orders": {
        "get": _operation(
            "listOrders", "orders", "One's own orders, the newest first, a hundred a page.",
            {"200": _answer("The orders.", "Orders")}, (*USER, "bad-page", "database-unavailable"), parameters=[AFTER],
        )
    },
    "/api/v1/orders/{order_id}": {
        "get": _operation(
            "showOrder", "orders", "One of one's own orders.", {"200": _answer("The order.", "Order")},
            (*USER, "no-such-order", "database-unavailable"), parameters=[ORDER_ID],
        )
    },
    "/api/v1/orders/{order_id}/pay": {
        "post": _operation(
            "payOrder", "orders", "Begin to pay; what becomes of it the provider will say.",
            {"202": _answer("An attempt has begun.", "Attempt")},
            (*USER, "no-such-order", "nothing-to-pay", "provider-unavailable", "database-unavailable"),
            parameters=[ORDER_ID],
        )
    },
    "/api/v1/orders/{order_id}/cancel": {
        "post": _operation(
            "cancelOrder", "orders", "Give it back; when the units are in stock again, the purchase says so.",
            {"202": _answer("It has ended.", "Order")},
            (*USER, "no-such-order", "not-cancellable", "provider-unavailable", "database-unavailable"),
            parameters=[ORDER_ID],
        )
    },
    "/api/v1/payments/callback": {
        "post": _operation(
            "providerCalls", "provider", "The payment provider tells what became of an attempt.",
            {"200": _answer("Heard.", "Received")},
            ("bad-signature", "bad-callback", "not-confirmed", "unknown-payment", "provider-unavailable",
             "database-unavailable"), parameters=[SIGNATURE],
            **_body("Callback"),
        )
    },
    "/livez": {
        "get": _operation(
            "isAlive", "operation", "The process answers.",
            {"200": {"description": "It does.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
        )
    },
    "/readyz": {
        "get": _operation(
            "isReady", "operation", "It can sell: database, Redis and broker answer.",
            {"200": _answer("It can.", "Ready"), "503": _answer("It cannot; what is missing.", "Ready")},
        )
    },
}  # fmt: skip
