"""Shell: what each step of an admission costs in CPU of one core, called by itself, many times, on one thread.

The sum is less than what the gateway uses: the rest is threads that wait and are woken, the server's own work, and the
threads that talk to Redis and the broker.
"""

from __future__ import annotations

import marshal
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings

from gateway import admission, answers, desk, identity, places, tickets
from gateway.admission import Ask
from gateway.desk import Call
from gateway.events import PurchaseRequested
from gateway.hatch import packed
from gateway.places import Place, Standing
from seckill import tokens
from seckill.streams import traces

TIMES = 5_000
ROUND = 32
"""Requests that share one call to Redis under load."""
PLACE = Place("purchase.requests", 3, 123_456)
FOREVER = 10**15


def measure(producer: Any, topic: str) -> dict[str, float]:
    """Step → microseconds. The Redis that the settings name is asked; the records go to the given topic."""
    token, (ticket, _) = tokens.issue("buyer-1"), tickets.issue("buyer-1", 1, FOREVER)
    request_id = uuid4()
    requested = PurchaseRequested(request_id, "buyer-1", 1, "phone", 1, 1_795_000_000_000, 1_795_000_600_000)
    standing = Standing("buyer-1", PLACE, 1_795_000_600_000)
    value = requested.envelope().encode()
    signed, call = places.sealed(request_id, standing), Call(1, "", token, "first", ticket, "", "", None, b"{}")
    return {
        "token": _each(lambda: tokens.read(token)),
        "ticket": _each(lambda: tickets.read(ticket, "buyer-1", 1)),
        "request id": _each(lambda: identity.request_id(settings.SECRET_KEY, "buyer-1", 1, "first")),
        "trace": _each(lambda: traces.continued(None, request_id)),
        f"admission, {ROUND} in a round": _rounds(ROUND),
        "admission, one by one": _rounds(1),
        "envelope": _each(lambda: requested.envelope().encode()),
        "produce, without waiting": _each(lambda: producer.send(topic, key=b"buyer-1", value=value)),
        "signed place": _each(lambda: places.sealed(request_id, standing)),
        "JSON in": _each(lambda: desk.body(b'{"quantity":1}')),
        "JSON out": _each(lambda: answers.accepted(request_id, PLACE, 1, None, signed)),
        "through the hatch, both ways": _each(lambda: marshal.loads(packed((7, *call))[4:])) * 2,  # nosec B302
    }


def _rounds(size: int) -> float:
    """For each request of a round of so many."""
    times = 500
    crowd = iter([[_ask(uuid4()) for _ in range(size)] for _ in range(times + 1)])
    return _each(lambda: admission.admit(next(crowd)), times) / size


def _ask(request_id: UUID) -> Ask:
    name = request_id.hex
    return Ask(
        request_id, "0123456789abcdef", name, name[:12], 0, FOREVER, ticket_number=name[:16],
        ticket_expires_at_ms=FOREVER,
    )  # fmt: skip


def _each(step: Callable[[], object], times: int = TIMES) -> float:
    step()
    began = time.thread_time()
    for _ in range(times):
        step()
    return (time.thread_time() - began) / times * 1e6
