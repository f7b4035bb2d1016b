"""The verbs: buy, and the ticket that buying takes."""

from __future__ import annotations

import time

from gateway import metrics, offered, sales, tickets
from gateway.admission import Verdict
from gateway.desk import Accepted, Call, refusal, shut
from gateway.door import door
from inventory.events import SaleView
from seckill.problems import Problem


def buy(call: Call) -> Accepted:
    """In the queue once the broker has it; the same key gets the same answer. `Problem` says why not."""
    offered.one()
    began = time.perf_counter()
    try:
        accepted = door.pass_through(call)
    except Problem as problem:
        metrics.count(problem.kind, time.perf_counter() - began)
        raise
    metrics.count(metrics.ACCEPTED, time.perf_counter() - began)
    return accepted


def ticket_for(view: SaleView, user_id: str) -> tuple[str, int]:
    """A ticket and when its time is over; only while the sale is open."""
    now_ms = sales.now_ms()
    if now_ms < view.opens_at_ms:
        raise refusal(Verdict.NOT_OPEN_YET, view, now_ms)
    if now_ms >= view.closes_at_ms:
        raise refusal(Verdict.CLOSED, view, now_ms)
    if word := shut(view):
        raise refusal(Verdict(word), view, now_ms)
    text, ticket = tickets.issue(user_id, view.id, now_ms)
    return text, ticket.expires_at_ms
