"""What a buyer can do: get a ticket, and buy."""

from __future__ import annotations

import time

from gateway import metrics, offered, redis_clock, tickets
from gateway.admission import Verdict
from gateway.desk import Accepted, Call, refusal, shut
from gateway.door import door
from inventory.events import SaleView
from seckill.web.problems import Problem


def buy(call: Call) -> Accepted:
    """Enqueue the request; returns once the broker has it. The same key gets the same answer. Raises `Problem`."""
    offered.one()
    began = time.perf_counter()
    try:
        accepted = door.pass_through(call)
    except Problem as problem:
        metrics.observe_purchase(problem.kind, time.perf_counter() - began)
        raise
    metrics.observe_purchase(metrics.ACCEPTED, time.perf_counter() - began)
    return accepted


def issue_ticket(view: SaleView, user_id: str) -> tuple[str, int]:
    """A ticket and its expiry. Raises `Problem` unless the sale is open."""
    now_ms = redis_clock.now_ms()
    if now_ms < view.opens_at_ms:
        raise refusal(Verdict.NOT_OPEN_YET, view, now_ms)
    if now_ms >= view.closes_at_ms:
        raise refusal(Verdict.CLOSED, view, now_ms)
    if verdict := shut(view):
        raise refusal(Verdict(verdict), view, now_ms)
    text, ticket = tickets.issue_ticket(user_id, view.id, now_ms)
    return text, ticket.expires_at_ms
