"""Table: what a buyer is told when a purchase is refused."""

from __future__ import annotations

from django.conf import settings

from gateway.admission import Verdict
from inventory.events import SaleView
from seckill.web.problems import Problem

PAUSED_RETRY_S = 2.0
UNPAID_RETRY_S = 5.0
BACKLOG_RETRY_SECONDS_MAX = 60.0

REFUSALS: dict[Verdict, tuple[int, str, str]] = {
    Verdict.OTHER_BODY: (422, "key-reused", "This Idempotency-Key was used for another request."),
    Verdict.NOT_OPEN_YET: (403, "not-open-yet", "The sale has not begun."),
    Verdict.CLOSED: (410, "sale-closed", "The sale is over."),
    Verdict.PAUSED: (503, "sale-paused", "The sale is paused."),
    Verdict.TICKET_MISSING: (403, "ticket-missing", "Send the Purchase-Ticket of POST /api/v1/sales/{id}/ticket."),
    Verdict.TICKET_INVALID: (403, "ticket-invalid", "This ticket was not given to you for this sale."),
    Verdict.TICKET_EXPIRED: (403, "ticket-expired", "This ticket has expired; fetch a new one."),
    Verdict.TICKET_SPENT: (409, "ticket-spent", "This ticket was used with another Idempotency-Key."),
    Verdict.TOO_MANY: (429, "too-many-requests", "Slow down."),
    Verdict.TOO_MANY_TRIES: (
        429, "too-many-tries", "This user, or this address, has made too many requests in this sale.",
    ),
    Verdict.TOO_MANY_UNPAID: (429, "too-many-unpaid", "Your address holds too many unpaid units."),
    Verdict.SOLD_OUT: (409, "sold-out", "The last unit has been sold."),
    Verdict.BACKLOG: (503, "queue-too-long", "The queue is too long: your request would be decided too late."),
    Verdict.NO_QUEUE: (503, "queue-unavailable", "The queue accepts no requests at the moment."),
    Verdict.NO_SUCH_SALE: (404, "no-such-sale", "This sale does not exist."),
    Verdict.UNKNOWN: (503, "queue-unknown", "Your request may be in the queue. Send it again with the same key."),
}  # fmt: skip


def refusal(verdict: Verdict, view: SaleView, now_ms: int, wait_ms: int | None = None) -> Problem:
    """`now_ms`: Redis TIME. `wait_ms`: how long the request would have waited, if that is known."""
    status, kind, detail = REFUSALS[verdict]
    match verdict:
        case Verdict.NOT_OPEN_YET:
            wait_s = (view.opens_at_ms - now_ms) / 1000
            return Problem(status, kind, detail, retry_after_s=wait_s, opens_at_ms=view.opens_at_ms)
        case Verdict.SOLD_OUT:
            return Problem(status, kind, detail, stock_version=view.stock_version)
        case Verdict.PAUSED:
            return Problem(status, kind, detail, retry_after_s=PAUSED_RETRY_S)
        case Verdict.TOO_MANY_UNPAID:
            return Problem(status, kind, detail, retry_after_s=UNPAID_RETRY_S)
        case Verdict.TOO_MANY | Verdict.NO_QUEUE | Verdict.UNKNOWN:
            return Problem(status, kind, detail, retry_after_s=1)
        case Verdict.BACKLOG:
            wait_ms = wait_ms or 0
            excess_s = wait_ms / 1000 - settings.ENVIRONMENT.purchase_deadline_s
            retry_after_s = min(max(1.0, excess_s), BACKLOG_RETRY_SECONDS_MAX)
            return Problem(status, kind, detail, retry_after_s=retry_after_s, wait_ms=wait_ms)
        case _:
            return Problem(status, kind, detail)


def queue_unavailable(cause: BaseException | None = None) -> Problem:
    """The request was not sent."""
    detail = "The queue accepts no requests at the moment."
    return _caused(Problem(503, "queue-unavailable", detail, retry_after_s=1), cause)


def queue_moving(cause: BaseException) -> Problem:
    detail = "Your part of the queue is being moved to another partition."
    return _caused(Problem(503, "queue-moving", detail, retry_after_s=1), cause)


def queue_unknown(cause: BaseException | None = None) -> Problem:
    """The request may have been queued, so it is not called a failure."""
    detail = "It is not known whether your request was queued. Send it again with the same key."
    return _caused(Problem(503, "queue-unknown", detail, retry_after_s=1), cause)


def admission_unavailable(cause: BaseException) -> Problem:
    return _caused(Problem(503, "admission-unavailable", "Admission is unavailable.", retry_after_s=1), cause)


def _caused(problem: Problem, cause: BaseException | None) -> Problem:
    problem.__cause__ = cause
    return problem
