"""One delivery: at its turn, once in effect, and not while its channel's breaker is open.

Whoever holds the row's lock delivers; a second one finds it taken and leaves it. A worker that dies lets go of the lock
and has changed nothing: the delivery is still due.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from notifications import breaker, sinks
from notifications.breaker import Leave
from notifications.models import Delivery
from notifications.sinks import Refused, SinkDown
from seckill.audit.trail import acting
from seckill.streams import traces

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0


class Ended(NamedTuple):
    """What came of one. `after`: the same user's next delivery on that channel, whose turn it is now."""

    state: str
    after: Delivery | None = None


class NotGivenUp(Exception):
    """There is nothing to send again."""


def deliver(event_id: UUID, channel: str, traceparent: str = "") -> Ended | None:
    """None: it was left alone, for it is done, or another's, or it is not its turn, or the breaker is open."""
    leave = breaker.ask(channel)
    if leave is Leave.NO:
        return None
    with transaction.atomic():
        row = Delivery.objects.select_for_update(skip_locked=True).filter(event_id=event_id, channel=channel)
        mine = at_their_turn(row).first()
        fault = None if mine is None else _try(mine, traceparent or mine.traceparent)
    if mine is None:
        if leave is Leave.PROBE:
            breaker.put_back(channel)
        return None
    if isinstance(fault, SinkDown):
        breaker.failed(channel)
        return Ended(mine.state)
    breaker.succeeded(channel)
    theirs = Delivery.objects.filter(channel=channel, user_id=mine.user_id, id__gt=mine.id)
    return Ended(mine.state, at_their_turn(theirs).order_by("id").first())


def again(number: int) -> Delivery:
    """One that its sink had refused for good is due once more; what the user was told since, he was told before it.
    `NotGivenUp` says what it is instead."""
    with acting("messages again", f"delivery {number}"):
        changed = Delivery.objects.filter(id=number, state="given_up").update(state="due", due_at=Now())
        row = Delivery.objects.filter(id=number).first()
        if row is None:
            raise NotGivenUp(f"there is no message {number}")
        if not changed:
            raise NotGivenUp(f"message {number} is {row.state}; only what was given up is sent again")
    return row


def at_their_turn(chosen: QuerySet[Delivery]) -> QuerySet[Delivery]:
    """Those that are due and do not wait for the same user's previous one on that channel."""
    earlier = Delivery.objects.filter(
        channel=OuterRef("channel"), user_id=OuterRef("user_id"), id__lt=OuterRef("id"), state="due"
    )
    return chosen.filter(state="due", due_at__lte=Now()).exclude(Exists(earlier))


def _try(row: Delivery, traceparent: str) -> Exception | None:
    """Inside the transaction that holds the row: tell the sink, and note what came of it."""
    fault: Exception | None = None
    row.attempts += 1
    try:
        sinks.tell(row, traces.next_hop(traceparent, row.event_id, row.channel))
        row.state, row.done_at, row.last_fault = "done", timezone.now(), ""
    except SinkDown as down:
        fault = down
        pause_s = min(FIRST_PAUSE_S * 2 ** min(row.attempts - 1, 10), LONGEST_PAUSE_S)
        row.due_at, row.last_fault = timezone.now() + timedelta(seconds=pause_s), str(down)[:500]
    except Refused as refused:
        fault = refused
        row.state, row.last_fault = "given_up", str(refused)[:500]
        log.error("given up", extra={"event": str(row.event_id), "channel": row.channel, "reason": row.last_fault})
    row.save(update_fields=["attempts", "state", "done_at", "due_at", "last_fault"])
    return fault
