"""All problems: the status, the cause, and whether a retry helps (then `Retry-After` says when)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from seckill.web.problems import PROBLEM_CONTENT_TYPE


class Kind(NamedTuple):
    status: int
    when: str
    retry: bool = False


PROBLEMS: dict[str, Kind] = {
    # any address
    "bad-request": Kind(400, "The request is malformed."),
    "bad-json": Kind(400, "The body is not a JSON object."),
    "bad-header": Kind(400, "A header contains bytes that are not ASCII."),
    "headers-too-large": Kind(431, "The headers exceed 16 KiB, or the cookies 8 KiB."),
    "address-too-long": Kind(414, "Path and query exceed 8 KiB."),
    "body-timeout": Kind(408, "The body did not arrive within 10 seconds."),
    "length-required": Kind(411, "The body was sent without a Content-Length."),
    "body-too-large": Kind(413, "The body exceeds 4096 bytes."),
    "not-signed-in": Kind(401, "The token is missing, forged or expired."),
    "no-such-address": Kind(404, "This address does not exist."),
    "wrong-method": Kind(405, "This address does not support this method."),
    "internal": Kind(500, "A bug. Please report it."),
    "status-unknown": Kind(503, "It is not known yet whether this request was decided.", True),
    "database-unavailable": Kind(503, "The database is not answering.", True),
    # signing in, and sales
    "bad-user": Kind(400, "A user name must be 1 to 100 letters, digits or . _ @ + -"),
    "no-such-sale": Kind(404, "The sale does not exist."),
    "no-such-article": Kind(404, "The sale has no article with this `sku`."),
    "sales-unavailable": Kind(503, "The sales are temporarily unavailable.", True),
    # buying, in the order in which they are checked
    "bad-idempotency-key": Kind(400, "The key is missing, or is not 1 to 64 printable characters."),
    "bad-quantity": Kind(400, "The quantity is not a positive integer."),
    "admission-unavailable": Kind(503, "Redis is not answering, and nobody is admitted without it.", True),
    "key-reused": Kind(422, "The key was already used for a different request."),
    "not-open-yet": Kind(403, "The sale has not started; `opens_at_ms` says when it will.", True),
    "sale-closed": Kind(410, "The sale has ended."),
    "sale-paused": Kind(503, "The operator has paused the sale.", True),
    "ticket-missing": Kind(403, "The ticket is missing. Fetch one."),
    "ticket-invalid": Kind(403, "The ticket was not issued to this user for this sale."),
    "ticket-expired": Kind(403, "The ticket has expired. Fetch a new one."),
    "ticket-spent": Kind(409, "The ticket was used with another Idempotency-Key."),
    "too-many-requests": Kind(429, "The rate limit of the user or of the address is exceeded.", True),
    "too-many-tries": Kind(429, "The user has made 100 requests in this sale, or the address 5,000."),
    "too-many-unpaid": Kind(429, "Requests from this address hold a quarter of the sale's units unpaid.", True),
    "sold-out": Kind(409, "The last unit has been sold. (While units are only reserved, requests are still accepted.)"),
    "queue-too-long": Kind(503, "The expected wait is longer than a request's deadline.", True),
    "queue-unavailable": Kind(503, "The queue is temporarily unavailable. The request is not in it.", True),
    "queue-moving": Kind(503, "The queue is being reorganized, which takes a few seconds.", True),
    "queue-unknown": Kind(503, "It is unknown whether the request is queued. Send it again with the same key.", True),
    # following
    "no-such-purchase": Kind(404, "The request does not exist or belongs to another user."),
    "too-many-streams": Kind(503, "Too many streams are open for the request, for the address, or in total.", True),
    # orders and payments
    "no-such-order": Kind(404, "The order does not exist or belongs to another user."),
    "bad-page": Kind(400, "`after` is not the `next` of a page of orders."),
    "nothing-to-pay": Kind(409, "The order is already paid or has ended."),
    "not-cancellable": Kind(409, "The order is already paid or has ended."),
    "provider-unavailable": Kind(503, "The payment provider is not answering.", True),
    "bad-signature": Kind(401, "The callback is too old or not signed by the provider."),
    "bad-callback": Kind(400, "The callback is not a JSON object with id, payment and kind."),
    "not-confirmed": Kind(401, "The provider does not confirm what the callback says."),
    "unknown-payment": Kind(404, "This payment was never started here."),
}


def example(kind: str) -> dict[str, Any]:
    status, when, _ = PROBLEMS[kind]
    return {"type": f"/problems/{kind}", "title": kind.replace("-", " "), "status": status, "detail": when}


def responses(kinds: Iterable[str]) -> dict[str, Any]:
    """In OpenAPI's form: one response per status, with an example for each kind of problem."""
    by_status: dict[int, list[str]] = {}
    for kind in kinds:
        by_status.setdefault(PROBLEMS[kind].status, []).append(kind)
    return {str(status): _response(same) for status, same in sorted(by_status.items())}


def _response(kinds: list[str]) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": " · ".join(PROBLEMS[kind].when for kind in kinds),
        "content": {
            PROBLEM_CONTENT_TYPE: {
                "schema": {"$ref": "#/components/schemas/Problem"},
                "examples": {kind: {"summary": PROBLEMS[kind].when, "value": example(kind)} for kind in kinds},
            }
        },
    }
    if any(PROBLEMS[kind].retry for kind in kinds):
        response["headers"] = {
            "Retry-After": {"description": "Seconds to wait before the next try.", "schema": {"type": "integer"}}
        }
    return response
