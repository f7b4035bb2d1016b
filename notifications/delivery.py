"""Deliver one message: in order per user and channel, once in effect, and not while the channel's breaker is open.

A worker leases the delivery, calls the sink outside any transaction, and then stores the result. While the lease lasts,
other workers leave the delivery alone. If the worker dies or freezes, the lease expires and another worker sends the
message again; the sink ignores the repeat by its key, and the first worker's late result is discarded, because
`attempts` has grown since.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from notifications import channel_breaker, sinks
from notifications.channel_breaker import CallPermit
from notifications.models import Delivery
from notifications.sinks import MessageRejected, SinkDown
from notifications.states import DeliveryState
from seckill.audit.trail import audited
from seckill.monitoring import traces

log = logging.getLogger(__name__)

RETRY_PAUSE_SECONDS_MIN = 1.0
RETRY_PAUSE_SECONDS_MAX = 30.0
LEASE = timedelta(seconds=10)
"""Longer than a sink call may take (`sinks.CALL_SECONDS_MAX` for each of its steps)."""
FAULT_CHARACTERS_MAX = 500


class DeliveryResult(NamedTuple):
    """`next`: the same user's next delivery on the channel, which is ready now."""

    state: str
    next: Delivery | None = None


class DeliveryNotGivenUp(Exception):
    """Only a delivery that its sink rejected can be sent again."""


def deliver(event_id: UUID, channel: str, traceparent: str = "") -> DeliveryResult | None:
    """None: nothing was sent, because the delivery is done, leased or not ready, or because the breaker is open."""
    permit = channel_breaker.request_permit(channel)
    if permit is CallPermit.DENIED:
        return None
    leased = lease_delivery(event_id, channel)
    if leased is None:
        if permit is CallPermit.PROBE:
            channel_breaker.return_probe(channel)
        return None
    fault = _send(leased, traceparent or leased.traceparent)
    if isinstance(fault, SinkDown):
        channel_breaker.record_failure(channel)
    else:
        channel_breaker.record_success(channel)
    state = _store_result(leased, fault)
    if state == DeliveryState.DUE:
        return DeliveryResult(state)
    later = Delivery.objects.filter(channel=channel, user_id=leased.user_id, id__gt=leased.id)
    return DeliveryResult(state, filter_ready(later).order_by("id").first())


def lease_delivery(event_id: UUID, channel: str) -> Delivery | None:
    """One UPDATE, so of several workers only one gets the lease."""
    ready = filter_ready(Delivery.objects.filter(event_id=event_id, channel=channel))
    if ready.update(leased_until=Now() + LEASE, attempts=F("attempts") + 1) != 1:
        return None
    return Delivery.objects.get(event_id=event_id, channel=channel)


def filter_ready(chosen: QuerySet[Delivery]) -> QuerySet[Delivery]:
    """Deliveries that are due and not leased, and whose user has no earlier due delivery on the channel."""
    earlier = Delivery.objects.filter(
        channel=OuterRef("channel"), user_id=OuterRef("user_id"), id__lt=OuterRef("id"), state=DeliveryState.DUE
    )
    is_free = Q(leased_until=None) | Q(leased_until__lte=Now())
    return chosen.filter(is_free, state=DeliveryState.DUE, due_at__lte=Now()).exclude(Exists(earlier))


def resend_delivery(number: int) -> Delivery:
    """Make a rejected delivery due again. Later messages of the same user may already have been sent."""
    with audited("messages again", f"delivery {number}"):
        given_up = Delivery.objects.filter(id=number, state=DeliveryState.GIVEN_UP)
        is_changed = given_up.update(state=DeliveryState.DUE, due_at=Now(), leased_until=None) == 1
        row = Delivery.objects.filter(id=number).first()
        if row is None:
            raise DeliveryNotGivenUp(format_lazy(_("delivery {id} does not exist"), id=number))
        if not is_changed:
            text = _("delivery {id} is {state}; only one that was given up can be sent again")
            raise DeliveryNotGivenUp(format_lazy(text, id=number, state=row.state))
    return row


def _send(row: Delivery, traceparent: str) -> SinkDown | MessageRejected | None:
    """Call the sink. Refuses to do so inside a transaction, because the call may take seconds."""
    if transaction.get_connection().in_atomic_block:
        raise RuntimeError("a sink must not be called inside a transaction")
    try:
        sinks.send_message(row, traces.next_hop(traceparent, row.event_id, row.channel))
    except (SinkDown, MessageRejected) as fault:
        return fault
    return None


def _store_result(row: Delivery, fault: SinkDown | MessageRejected | None) -> str:
    """The delivery's state now. If the lease was lost meanwhile, the other worker's result stays."""
    text = str(fault)[:FAULT_CHARACTERS_MAX]
    changes: dict[str, Any]
    match fault:
        case None:
            changes = {"state": DeliveryState.DONE, "done_at": Now(), "last_fault": ""}
        case SinkDown():
            pause_s = min(RETRY_PAUSE_SECONDS_MIN * 2 ** min(row.attempts - 1, 10), RETRY_PAUSE_SECONDS_MAX)
            changes = {"state": DeliveryState.DUE, "due_at": Now() + timedelta(seconds=pause_s), "last_fault": text}
        case MessageRejected():
            changes = {"state": DeliveryState.GIVEN_UP, "last_fault": text}
            log.error("given up", extra={"event": str(row.event_id), "channel": row.channel, "reason": text})
    leased = Delivery.objects.filter(id=row.id, attempts=row.attempts, state=DeliveryState.DUE)
    if leased.update(leased_until=None, **changes) == 1:
        return str(changes["state"])
    log.warning("lease lost", extra={"event": str(row.event_id), "channel": row.channel})
    return Delivery.objects.values_list("state", flat=True).get(id=row.id)
