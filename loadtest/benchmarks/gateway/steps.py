"""Shell: the CPU time of each step of an admission, called on its own many times in one thread.

The gateway uses more than their sum, because it also wakes threads, serves HTTP, and talks to Redis and the broker.
"""

from __future__ import annotations

import marshal
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from gateway.desk import Call
from gateway.hatch import packed

from gateway import accepted_response, admission, desk, identity, signed_positions, tickets
from gateway.admission import AdmissionRequest
from gateway.events import PurchaseRequested
from gateway.signed_positions import SignedPosition
from seckill.messaging.record_position import RecordPosition
from seckill.monitoring import traces
from seckill.web import tokens

TIMES = 5_000
BATCH_REQUESTS = 32
"""Under load, this many requests share one call to Redis."""
PLACE = RecordPosition("purchase.requests", 3, 123_456)
FOREVER = 10**15


def measure(producer: Any, topic: str) -> dict[str, float]:
    """Microseconds by step. It calls the Redis of the settings and sends records to the given topic."""
    token, (ticket, _) = tokens.issue_token("buyer-1"), tickets.issue_ticket("buyer-1", 1, FOREVER)
    request_id = uuid4()
    requested = PurchaseRequested(request_id, "buyer-1", 1, "phone", 1, 1_795_000_000_000, 1_795_000_600_000)
    standing = SignedPosition("buyer-1", PLACE, 1_795_000_600_000)
    value = requested.envelope().encode()
    signed, call = (
        signed_positions.sign_position(request_id, standing),
        Call(1, "", token, "first", ticket, "", "", None, b"{}"),
    )
    return {
        "token": _each(lambda: tokens.verify_token(token)),
        "ticket": _each(lambda: tickets.verify_ticket(ticket, "buyer-1", 1)),
        "request id": _each(lambda: identity.derive_request_id(settings.SECRET_KEY, "buyer-1", 1, "first")),
        "trace": _each(lambda: traces.continued(None, request_id)),
        f"admission, {BATCH_REQUESTS} in a batch": _batches(BATCH_REQUESTS),
        "admission, one by one": _batches(1),
        "envelope": _each(lambda: requested.envelope().encode()),
        "produce, without waiting": _each(lambda: producer.send(topic, key=b"buyer-1", value=value)),
        "signed place": _each(lambda: signed_positions.sign_position(request_id, standing)),
        "JSON in": _each(lambda: desk.body(b'{"quantity":1}')),
        "JSON out": _each(lambda: accepted_response.encode_accepted(request_id, PLACE, 1, None, signed)),
        "hand-over between processes, both ways": _each(lambda: marshal.loads(packed((7, *call))[4:])) * 2,  # nosec B302
    }


def _batches(size: int) -> float:
    """Per request, in batches of this size."""
    times = 500
    crowd = iter([[_ask(uuid4()) for _ in range(size)] for _ in range(times + 1)])
    return _each(lambda: admission.admit_requests(next(crowd)), times) / size


def _ask(request_id: UUID) -> AdmissionRequest:
    name = request_id.hex
    return AdmissionRequest(
        request_id, "0123456789abcdef", name, name[:12], 0, FOREVER, ticket_number=name[:16],
        ticket_expires_at_ms=FOREVER,
    )  # fmt: skip


def _each(step: Callable[[], object], times: int = TIMES) -> float:
    step()
    began = time.thread_time()
    for _ in range(times):
        step()
    return (time.thread_time() - began) / times * 1e6
