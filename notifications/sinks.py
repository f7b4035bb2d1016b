"""Shell: client of the message sinks. Each message carries a key, so a sink that gets it twice delivers it once."""

from __future__ import annotations

from django.conf import settings

from notifications.models import Delivery
from seckill.resilience import http_client

CALL_SECONDS_MAX = 3.0


class SinkDown(ConnectionError):
    """The sink may or may not have the message. Send it again."""


class MessageRejected(Exception):
    """The sink understood the message and rejected it. Sending it again is useless."""


def send_message(delivery: Delivery, traceparent: str) -> None:
    key = f"{delivery.event_id}:{delivery.channel}"
    headers = {"Idempotency-Key": key} | ({"traceparent": traceparent} if traceparent else {})
    body = {"key": key, "user": delivery.user_id, "text": delivery.text}
    try:
        response = http_client.call(
            "POST", f"{settings.ENVIRONMENT.sinks_url}/{delivery.channel}", body, CALL_SECONDS_MAX, headers
        )
    except http_client.NoResponse as fault:
        raise SinkDown(str(fault)) from fault
    if response.is_refusal:
        raise MessageRejected(f"status {response.status}")
    if response.is_failure:
        raise SinkDown(f"status {response.status}")
