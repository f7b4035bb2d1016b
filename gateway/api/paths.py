"""The addresses: the parameters, answers and problems of each."""

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
    "bad-idempotency-key", "no-such-article", "bad-quantity", "key-reused", *DOOR, "ticket-missing", "ticket-invalid",
    "ticket-expired", "ticket-spent", "too-many-requests", "sold-out", "queue-too-long", "queue-unavailable",
    "queue-moving", "too-many-tries", "too-many-unpaid", "queue-unknown", "admission-unavailable",
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
    """An operation with the problem `not-signed-in` needs a token."""
    made: dict[str, Any] = {"operationId": name, "tags": [tag], "summary": summary}
    if "not-signed-in" in problems:
        made["security"] = [{"token": []}]
    return made | more | {"responses": good | responses((*problems, *ALWAYS))}


def _in(where: str, name: str, schema: dict[str, Any], description: str, **more: Any) -> dict[str, Any]:
    return {"in": where, "name": name, "schema": schema, "description": description, **more}


SALE_ID = _in("path", "sale_id", {"type": "integer", "minimum": 0}, "The sale.", required=True, example=1)
REQUEST_ID = _in("path", "request_id", {"type": "string", "format": "uuid"}, "From the 202.", required=True)
ORDER_ID = _in("path", "order_id", {"type": "string", "format": "uuid"}, "From the outcome.", required=True)
AFTER = _in("query", "after", {"type": "string"}, "`next` of the previous page. Without it: the newest orders.")
IF_NONE_MATCH = _in("header", "If-None-Match", {"type": "string"}, "The ETag of the last answer.")
KEY = _in(
    "header", "Idempotency-Key", {"type": "string", "pattern": "^[!-~]{1,64}$"},
    "Identifies the purchase: all requests with the same key are one purchase.", required=True,
    example="3f1c-first",
)  # fmt: skip
TICKET_OF_SALE = _in(
    "header", "Purchase-Ticket", {"type": "string", "maxLength": 400},
    "From `POST /sales/{sale_id}/ticket`. Not needed for a key that was admitted before.", example=TICKET,
)  # fmt: skip
TRACE = _in(
    "header", "traceparent", {"type": "string"}, "W3C trace context. The whole purchase becomes part of this trace.",
    example="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
)  # fmt: skip
SIGNED_PLACE = _in("query", "place", {"type": "string"}, "The signed position from the `status_url`.", example=PLACE)
LAST_EVENT = _in("header", "Last-Event-ID", {"type": "string"}, "The last event received. Only newer ones are sent.")
SIGNATURE = _in("header", "X-Provider-Signature", {"type": "string"}, "The provider's HMAC with its time.")

TAG = {"ETag": {"description": "Changes with the content.", "schema": {"type": "string"}}}
POLL = {
    "X-Poll-After-Ms": {
        "description": "Poll again after this time: sooner when the decision is near, with a random part.",
        "schema": {"type": "integer"},
    }
}
UNCHANGED = {"304": {"description": "Nothing has changed since this ETag.", "headers": TAG}}

PATHS: dict[str, Any] = {
    "/api/v1/sessions": {
        "post": _operation(
            "signIn", "buyer", "Demo sign-in: any name is accepted; there is no password. In development only.",
            {"201": _answer("A token, valid for twelve hours.", "Session")}, ("bad-user", "no-such-address", *BODY),
            **_body("SignIn"),
        )
    },
    "/api/v1/sales": {
        "get": _operation(
            "listSales", "sales", "All current sales, at most a quarter of a second old.",
            {"200": _answer("The sales and the time.", "Sales", TAG), **UNCHANGED}, ("sales-unavailable",),
            parameters=[IF_NONE_MATCH],
        )
    },
    "/api/v1/sales/{sale_id}": {
        "get": _operation(
            "showSale", "sales", "One sale: its window, its stock, and the server's time for the countdown.",
            {"200": _answer("The sale and the time.", "SaleNow", TAG), **UNCHANGED}, SALE,
            parameters=[SALE_ID, IF_NONE_MATCH],
        )
    },
    "/api/v1/sales/{sale_id}/ticket": {
        "post": _operation(
            "fetchTicket", "purchase", "A ticket for one purchase by this user in this sale, valid for two minutes.",
            {"201": _answer("The ticket.", "Ticket")}, (*USER, *SALE, *DOOR), parameters=[SALE_ID],
        )
    },
    "/api/v1/sales/{sale_id}/purchases": {
        "post": _operation(
            "buy", "purchase", "Join the queue. 202: the broker has stored the request; the outcome follows.",
            {"202": _answer("The request is in the queue.", "Accepted", POLL)},
            (*USER, *SALE, *BODY, *ADMISSION), parameters=[SALE_ID, KEY, TICKET_OF_SALE, TRACE],
            **_body("Purchase", required=False),
        )
    },
    "/api/v1/purchases/{request_id}": {
        "get": _operation(
            "followPurchase", "purchase", "The status of a purchase; while queued, its position and expected wait.",
            {"200": _answer("The status.", "Outcome", POLL)},
            (*USER, "no-such-purchase", "status-unknown", "database-unavailable"),
            parameters=[REQUEST_ID, SIGNED_PLACE],
        )
    },
    "/api/v1/purchases/{request_id}/events": {
        "get": _operation(
            "streamPurchase", "purchase",
            "The status as server-sent events of type `purchase`, each as soon as it is true. Use the"
            " `events_url` of the 202.",
            {
                "200": {
                    "description": "A stream with growing ids. It ends with the final outcome.",
                    "content": {
                        "text/event-stream": {
                            "schema": {"type": "string"},
                            "example": 'id: 20\nevent: purchase\ndata: {"state":"RESERVED"}\n\n',
                        }
                    },
                },
                "204": {"description": "The client has already received the final outcome and should not reconnect."},
            },
            (*USER, "no-such-purchase", "no-such-address", "too-many-streams", "status-unknown",
             "database-unavailable"),
            parameters=[REQUEST_ID, SIGNED_PLACE, LAST_EVENT],
        )
    },
    "/api/v1/orders": {
        "get": _operation(
            "listOrders", "orders", "The buyer's orders, newest first, a hundred per page.",
            {"200": _answer("The orders.", "Orders")}, (*USER, "bad-page", "database-unavailable"), parameters=[AFTER],
        )
    },
    "/api/v1/orders/{order_id}": {
        "get": _operation(
            "showOrder", "orders", "One of the buyer's orders.", {"200": _answer("The order.", "Order")},
            (*USER, "no-such-order", "database-unavailable"), parameters=[ORDER_ID],
        )
    },
    "/api/v1/orders/{order_id}/pay": {
        "post": _operation(
            "payOrder", "orders", "Start a payment. The provider confirms it later.",
            {"202": _answer("The payment has started.", "Attempt")},
            (*USER, "no-such-order", "nothing-to-pay", "provider-unavailable", "database-unavailable"),
            parameters=[ORDER_ID],
        )
    },
    "/api/v1/orders/{order_id}/cancel": {
        "post": _operation(
            "cancelOrder", "orders", "Cancel the order. The purchase shows when its units are back in stock.",
            {"202": _answer("The order has been cancelled.", "Order")},
            (*USER, "no-such-order", "not-cancellable", "provider-unavailable", "database-unavailable"),
            parameters=[ORDER_ID],
        )
    },
    "/api/v1/payments/callback": {
        "post": _operation(
            "providerCalls", "provider", "The payment provider reports the result of a payment.",
            {"200": _answer("The report has been recorded.", "Received")},
            ("bad-signature", "bad-callback", "not-confirmed", "unknown-payment", "provider-unavailable",
             "database-unavailable"), parameters=[SIGNATURE],
            **_body("Callback"),
        )
    },
    "/livez": {
        "get": _operation(
            "isAlive", "operation", "Liveness: the process runs.",
            {"200": {"description": "It runs.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
        )
    },
    "/readyz": {
        "get": _operation(
            "isReady", "operation", "Readiness: database, Redis and broker answer.", {"200": _answer("Ready.", "Ready"),
            "503": _answer("Not ready; the answer lists what is missing.", "Ready")},
        )
    },
}  # fmt: skip
