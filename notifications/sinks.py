"""Shell: the client of the sinks. A message goes with its key, so telling it twice is telling it once."""

from __future__ import annotations

from django.conf import settings

from notifications.models import Delivery
from seckill import calls

PATIENCE_S = 3.0


class SinkDown(ConnectionError):
    """Perhaps it has the message, perhaps not: tell it again."""


class Refused(Exception):
    """It has understood and will not have it: telling it again is of no use."""


def tell(delivery: Delivery, traceparent: str) -> None:
    key = f"{delivery.event_id}:{delivery.channel}"
    headers = {"Idempotency-Key": key} | ({"traceparent": traceparent} if traceparent else {})
    body = {"key": key, "user": delivery.user_id, "text": delivery.text}
    try:
        answered = calls.call("POST", f"{settings.ENVIRONMENT.sinks_url}/{delivery.channel}", body, PATIENCE_S, headers)
    except calls.NoAnswer as fault:
        raise SinkDown(str(fault)) from fault
    if answered.is_refusal:
        raise Refused(f"answered {answered.status}")
    if answered.is_failure:
        raise SinkDown(f"answered {answered.status}")
