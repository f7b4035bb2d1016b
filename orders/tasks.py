"""Celery makes expiry prompt: one task at the time when the orders of a batch expire. The sweep would do it half a
second later."""

from __future__ import annotations

from datetime import datetime

from orders.expiry import expire_due_orders
from seckill.celery import app
from seckill.resilience.task_hints import enqueue_in_background


@app.task(name="orders.expire_due", ignore_result=True)  # type: ignore[untyped-decorator]
def expire_due() -> None:
    expire_due_orders()


def schedule_expiry(when: datetime) -> None:
    """One task for all orders of a batch, because they expire together. So the queue holds batches, not orders."""
    enqueue_in_background(expire_due, [()], eta=when)
