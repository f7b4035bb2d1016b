"""Celery makes expiry prompt: a task at the end of each lot's time. Without it the sweep comes half a second later."""

from __future__ import annotations

from datetime import datetime

from orders.expiring import expire_due
from seckill.celery import app, hint_soon


@app.task(name="orders.expire_due", ignore_result=True)  # type: ignore[untyped-decorator]
def expire() -> None:
    expire_due()


def expire_at(when: datetime) -> None:
    """One task for all the orders of a batch, whose time ends together: so a queue holds batches, not orders."""
    hint_soon(expire, [()], eta=when)
