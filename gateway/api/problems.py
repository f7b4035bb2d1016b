"""Every problem there is: its status, when it is met, and whether trying again helps (then `Retry-After` says when)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from seckill.problems import PROBLEM


class Kind(NamedTuple):
    status: int
    when: str
    retry: bool = False


PROBLEMS: dict[str, Kind] = {
    # of every address
    "bad-request": Kind(400, "The request makes no sense to the server."),
    "bad-json": Kind(400, "The body is no JSON object."),
    "bad-header": Kind(400, "A header has bytes that are not ASCII."),
    "headers-too-large": Kind(431, "The headers are longer than 16 KiB, or the cookies than 8 KiB."),
    "address-too-long": Kind(414, "Path and query are longer than 8 KiB."),
    "body-timeout": Kind(408, "The body did not arrive within 10 seconds."),
    "length-required": Kind(411, "The body came in chunks, without a Content-Length."),
    "body-too-large": Kind(413, "The body is longer than 4096 bytes."),
    "not-signed-in": Kind(401, "There is no token, or it is forged or over."),
    "no-such-address": Kind(404, "Nothing is at this address."),
    "wrong-method": Kind(405, "The address does not know this method."),
    "internal": Kind(500, "A bug. Please report it."),
    "database-unavailable": Kind(503, "The database does not answer.", True),
    # signing in, and the sales
    "bad-user": Kind(400, "A user's name is 1 to 100 of letters, digits and . _ @ + -"),
    "no-such-sale": Kind(404, "There is no such sale."),
    "sales-unavailable": Kind(503, "Nothing is known of the sales just now.", True),
    # buying, in the order in which the reasons are given
    "bad-idempotency-key": Kind(400, "The key is missing, or is not 1 to 64 printable characters."),
    "bad-quantity": Kind(400, "The quantity is not a whole number from 1 on."),
    "admission-unavailable": Kind(503, "Redis does not answer, and without it nobody is admitted.", True),
    "key-reused": Kind(422, "The key was used before, for another request."),
    "not-open-yet": Kind(403, "The sale has not begun; `opens_at_ms` says when it does.", True),
    "sale-closed": Kind(410, "The sale is over."),
    "sale-paused": Kind(503, "The operator has paused the sale.", True),
    "ticket-missing": Kind(403, "There is no ticket: fetch one."),
    "ticket-invalid": Kind(403, "The ticket was not given to this user for this sale."),
    "ticket-expired": Kind(403, "The ticket's time is over: fetch another one."),
    "ticket-spent": Kind(409, "The ticket was used with another Idempotency-Key."),
    "too-many-requests": Kind(429, "The user's bucket or the address's is empty.", True),
    "too-many-tries": Kind(429, "The user has made 100 requests in this sale, or the address 5,000."),
    "too-many-unpaid": Kind(429, "The address holds a quarter of the sale's units unpaid; some have to be paid.", True),
    "sold-out": Kind(409, "The last unit has been sold. (While some are only held, requests are still taken.)"),
    "queue-too-long": Kind(503, "The expected wait is longer than a request's deadline.", True),
    "queue-unavailable": Kind(503, "The queue takes nothing just now. The request is not in it.", True),
    "queue-moving": Kind(503, "The user's place in the queue is moved, or the queue diverted; it takes moments.", True),
    "queue-unknown": Kind(503, "Nobody knows whether the request is queued. Send it again, with the same key.", True),
    # following
    "no-such-purchase": Kind(404, "There is no such request, or it is somebody else's."),
    "too-many-streams": Kind(503, "Too many streams are open, of the request, to the address, or of all.", True),
    # orders and payments
    "no-such-order": Kind(404, "There is no such order, or it is somebody else's."),
    "bad-page": Kind(400, "`after` is not the `next` of a page of orders."),
    "nothing-to-pay": Kind(409, "The order is paid already, or has ended."),
    "not-cancellable": Kind(409, "The order is paid already, or has ended."),
    "provider-unavailable": Kind(503, "The payment provider does not answer.", True),
    "bad-signature": Kind(401, "The callback is not signed by the provider, or too old."),
    "bad-callback": Kind(400, "The callback is no JSON object with id, payment and kind."),
    "not-confirmed": Kind(401, "The provider, asked, does not confirm what the callback says."),
    "unknown-payment": Kind(404, "No such payment was ever begun here."),
}


def example(kind: str) -> dict[str, Any]:
    status, when, _ = PROBLEMS[kind]
    return {"type": f"/problems/{kind}", "title": kind.replace("-", " "), "status": status, "detail": when}


def responses(kinds: Iterable[str]) -> dict[str, Any]:
    """As OpenAPI has them: one for each status, with an example for each kind."""
    by_status: dict[int, list[str]] = {}
    for kind in kinds:
        by_status.setdefault(PROBLEMS[kind].status, []).append(kind)
    return {str(status): _response(same) for status, same in sorted(by_status.items())}


def _response(kinds: list[str]) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": " · ".join(PROBLEMS[kind].when for kind in kinds),
        "content": {
            PROBLEM: {
                "schema": {"$ref": "#/components/schemas/Problem"},
                "examples": {kind: {"summary": PROBLEMS[kind].when, "value": example(kind)} for kind in kinds},
            }
        },
    }
    if any(PROBLEMS[kind].retry for kind in kinds):
        response["headers"] = {
            "Retry-After": {"description": "Seconds after which to try again.", "schema": {"type": "integer"}}
        }
    return response
